"""A tiny BERT made from its configuration, trained by the Trainer of transformers."""

from data import LENGTH, VOCABULARY, Pause, Sequences, arguments, digest, training_set
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


def main():
    args = arguments()
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=LENGTH,
        )
    )
    model.bert.pooler.activation = Pause()
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="transformers-output",
            num_train_epochs=args.epochs,
            per_device_train_batch_size=8,
            dataloader_num_workers=args.workers,
            dataloader_persistent_workers=args.persistent,
            use_cpu=True,
            eval_strategy="epoch",
            report_to="none",
        ),
        train_dataset=training_set(args),
        eval_dataset=Sequences(32, 0.0),
    )
    trainer.train()
    print(f"weights {digest(model)}")


if __name__ == "__main__":
    main()
