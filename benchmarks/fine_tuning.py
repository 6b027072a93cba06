r"""Fine-tuning of a classifier of pairs with Hugging Face's Trainer.

  peer/bin/python benchmarks/fine_tuning.py \
    --model=data/all-MiniLM-L6-v2 --data_dir=data/glue/MRPC --seed=1

It prints the accuracy on the dev set, and the time from launch. It needs torch,
transformers and accelerate, and no module of this project. Compare with

  python run_classifier.py --task_name=MRPC --do_train --do_eval --packing \
    --adam_bias_correction --lr_schedule=continuous --random_seed=1 ...
"""

import argparse
import csv
import pathlib
import sys
import tempfile
import time

import numpy as np

_MAX_LENGTH = 128


def _rows(path, tokenizer):
    """Reads a file with the columns of MRPC."""
    with open(path, encoding="utf-8") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        {
            **tokenizer(
                text_a, text_b, truncation=True, max_length=_MAX_LENGTH
            ),
            "labels": int(label),
        }
        for label, _, _, text_a, text_b in lines[1:]
    ]


def main() -> None:
    """Trains, predicts and prints one line."""
    start = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--bf16", action="store_true")
    given = parser.parse_args()
    import transformers

    transformers.set_seed(given.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    train, dev = (
        _rows(pathlib.Path(given.data_dir, f"{name}.tsv"), tokenizer)
        for name in ("train", "dev")
    )
    model = transformers.AutoModelForSequenceClassification
    with tempfile.TemporaryDirectory() as folder:
        running = transformers.Trainer(
            model=model.from_pretrained(given.model, num_labels=2),
            args=transformers.TrainingArguments(
                output_dir=folder,
                use_cpu=True,
                seed=given.seed,
                num_train_epochs=3,
                per_device_train_batch_size=32,
                learning_rate=given.learning_rate,
                warmup_steps=0.1,
                adam_epsilon=1e-6,
                weight_decay=0.01,
                bf16=given.bf16,
                save_strategy="no",
                report_to="none",
            ),
            train_dataset=train,
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
        )
        running.train()
        found = running.predict(dev)
    correct = np.mean(found.predictions.argmax(-1) == found.label_ids)
    sys.stdout.write(
        f"accuracy {correct:.4f}, {time.perf_counter() - start:.1f} s, "
        f"{time.process_time():.1f} s of processor time\n"
    )


if __name__ == "__main__":
    main()
