"""Tokenizers with a Python face. The compiled `tokenizers.Tokenizer` itself cannot be patched."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "transformers.tokenization_utils_base": {
        "PreTrainedTokenizerBase.__call__": Call("tokenize (transformers)"),
        "PreTrainedTokenizerBase.encode": Call("tokenize (transformers)"),
        "PreTrainedTokenizerBase.pad": Call("pad (transformers)"),
    },
    "tiktoken.core": {
        "Encoding.encode": Call("tokenize (tiktoken)"),
        "Encoding.encode_ordinary": Call("tokenize (tiktoken)"),
    },
    "sentencepiece": {
        "SentencePieceProcessor.Encode": Call("tokenize (sentencepiece)"),
        "SentencePieceProcessor.encode": Call("tokenize (sentencepiece)"),
    },
}
