#!/usr/bin/env bash
# Pre-trains a small BERT from scratch, in six to ten minutes on two cores.
#
#   ./quickstart.sh
#
# Needs Python 3.11, 3.12 or 3.13 and, the first time, the network. The text is
# the documentation included with Python. Each step prints its command, which
# you can reuse for other text. Steps whose output exists are skipped, and
# training resumes from the last checkpoint. All output is in quickstart/:
# remove that folder to start over.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/environment.sh
prepare_environment requirements/base.txt

# step TITLE OUTPUT COMMAND...  shows COMMAND and runs it, unless OUTPUT exists.
# Where OUTPUT is "-" it always runs. An empty TITLE continues the step before.
step() {
  local title=$1 output=$2 argument line
  shift 2
  [ -z "$title" ] || printf '\n== %s\n' "$title"
  if [ -e "$output" ]; then
    echo "   Skipped: $output exists."
    return
  fi
  line="   $1"
  for argument in "${@:2}"; do
    if [ $((${#line} + ${#argument})) -gt 97 ]; then
      printf '%s \\\n' "$line"
      line="      "
    fi
    line="$line $argument"
  done
  printf '%s\n' "$line"
  "$@"
}

num_train_steps=2500
python=.venv/bin/python
folder=quickstart
model=$folder/model
mkdir -p "$folder"

step "Collecting text: Python's own documentation" "$folder/docs/docs.jsonl" \
  "$python" -m tools.python_docs --output_dir="$folder/docs"

step "Splitting it into sentences" "$folder/text.txt" \
  "$python" -m tools.prepare_corpus \
  --input_format=jsonl \
  --input_file="$folder/docs/docs.jsonl" \
  --output_file="$folder/text.txt" \
  --holdout_every=10 \
  --holdout_file="$folder/heldout.txt"

step "Learning a vocabulary of word pieces" "$folder/vocab.txt" \
  "$python" -m tools.learn_vocab \
  --input_file="$folder/text.txt" \
  --output_file="$folder/vocab.txt" \
  --vocab_size=4000

if [ ! -e "$folder/bert_config.json" ]; then
  cat > "$folder/bert_config.json" <<'JSON'
{
  "attention_probs_dropout_prob": 0.1,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "hidden_size": 128,
  "initializer_range": 0.02,
  "intermediate_size": 512,
  "max_position_embeddings": 512,
  "num_attention_heads": 2,
  "num_hidden_layers": 2,
  "type_vocab_size": 2,
  "vocab_size": 4000
}
JSON
fi

# The records and the training must agree on these.
lengths=(--max_seq_length=64 --max_predictions_per_seq=10)

# mask TITLE NAME PASSES  makes records of NAME.txt. Each pass masks it anew.
mask() {
  step "$1" "$folder/$2.tfrecord" \
    "$python" create_pretraining_data.py \
    --input_file="$folder/$2.txt" \
    --output_file="$folder/$2.tfrecord" \
    --vocab_file="$folder/vocab.txt" \
    "${lengths[@]}" \
    --dupe_factor="$3"
}
mask "Masking sentence pairs" text 10
mask "" heldout 1

step "Pre-training a BERT with 2 layers, then evaluating on the held-out text" \
  "$model/eval_results.txt" \
  "$python" run_pretraining.py \
  --input_file="$folder/text.tfrecord" \
  --eval_input_file="$folder/heldout.tfrecord" \
  --output_dir="$model" \
  --bert_config_file="$folder/bert_config.json" \
  --do_train --do_eval \
  "${lengths[@]}" \
  --max_eval_steps=0 \
  --train_batch_size=64 \
  --learning_rate=8e-4 \
  --num_train_steps="$num_train_steps" \
  --num_warmup_steps=200 \
  --log_every_steps=250 \
  --save_checkpoints_steps=500

echo "return the [MASK] of the file as a string." > "$folder/mask.txt"
step "Filling a mask" - \
  "$python" -m tools.predict --model="$model" \
  --input_file="$folder/mask.txt"

step "Fine-tuning the model to tell the language reference from the library" \
  "$folder/classifier/eval_results.txt" \
  "$python" run_classifier.py \
  --task_name=custom \
  --data_dir="$folder/docs" \
  --text_a_column=text \
  --label_column=label \
  --init_checkpoint="$model" \
  --output_dir="$folder/classifier" \
  --do_train --do_eval \
  --max_seq_length=64 \
  --learning_rate=5e-4 \
  --num_train_epochs=3

cat <<MESSAGE

== Done
   model         $model: model.ckpt-$num_train_steps, eval_results.txt, metrics.jsonl, loss.png
   classifier    $folder/classifier
   TensorBoard   .venv/bin/tensorboard --logdir=$model
MESSAGE
