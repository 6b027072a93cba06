# The environment of the scripts; the clone itself is mounted or copied.
#
#   docker build -t bert .                                        CPU
#   docker build -t bert --build-arg REQUIREMENTS=requirements-gpu.txt .   GPU
#   docker run --rm -v "$PWD/data:/bert/data" bert python run_classifier.py ...
#
# With a GPU add --gpus all to docker run; the driver is the host's.
FROM python:3.12-slim

ARG REQUIREMENTS=requirements.txt
WORKDIR /bert
COPY requirements*.txt ./
RUN pip install --no-cache-dir -r "$REQUIREMENTS"
COPY . .
CMD ["python", "run_pretraining.py", "--help"]
