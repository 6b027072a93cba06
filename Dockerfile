# The environment of the scripts and a copy of the clone. Not built yet: we had no
# container tool. Please report whether it works.
#
#   docker build -t bert .                                        CPU
#   docker build -t bert --build-arg REQUIREMENTS=requirements/gpu.txt .   GPU
#   docker run --rm -v "$PWD/data:/bert/data" bert python run_classifier.py ...
#
# For a GPU, add --gpus all to docker run; the driver is that of the host.
FROM python:3.12-slim

ARG REQUIREMENTS=requirements/base.txt
WORKDIR /bert
COPY requirements requirements
RUN pip install --no-cache-dir -r "$REQUIREMENTS"
COPY . .
CMD ["python", "run_pretraining.py", "--help"]
