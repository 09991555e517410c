"""Vocabularies of published models, from the GGUF files in the source distribution of llama-cpp-python
(PyPI; scripts/setup test puts them into build/vocabularies), as the files that the models come with:
tokenizer.json or a SentencePiece .model.

A GGUF file has ids, pieces, merges or scores, and the name of its pre-tokenizer. Normalizers and
patterns, which it does not have, are here as in the tokenizer.json of each model.
"""
import json
import pathlib
import struct

MARK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943")
DIGITS = {"type": "Digits", "individual_digits": True}
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def byte_level(use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


# tokenizer.ggml.pre of a byte-level BPE: the steps before ByteLevel, its use_regex
PRE_TOKENIZERS = {
    "gpt-2": ([], True),
    "mpt": ([], True),
    "llama-bpe": ([split(LLAMA3)], False),
    "qwen2": ([split(QWEN2)], False),
    "qwen35": ([split(QWEN35)], False),
    "deepseek-llm": ([split("[\r\n]"), split(rf"\s?[{DEEPSEEK_LETTERS}]+"),
                      split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
                      split(r"\s+$"), split(CJK), DIGITS], False),
    "deepseek-coder": ([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK),
                        DIGITS], False),
    "command-r": ([DIGITS], True),
    "refact": ([DIGITS], True),
    "starcoder": ([DIGITS], True),
}


def read_metadata(path):
    """The key-value pairs of a GGUF file (github.com/ggml-org/ggml/blob/master/docs/gguf.md)."""
    data = pathlib.Path(path).read_bytes()
    at = 0
    formats = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def number(kind):
        nonlocal at
        (value,) = struct.unpack_from("<" + kind, data, at)
        at += struct.calcsize("<" + kind)
        return value

    def text():
        nonlocal at
        size = number("Q")
        at += size
        return data[at - size : at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = number("I"), number("Q")
            return [value(inner) for _ in range(count)]
        return number(formats[kind])

    assert data[:4] == b"GGUF", path
    at = 8  # after the version
    number("Q")  # tensors
    return {text(): value(number("I")) for _ in range(number("Q"))}


def bytes_of_token(token):
    """Those that a token of byte-level BPE spells in GPT-2's alphabet: printable Latin-1 is itself, the
    other bytes are U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {**{chr(byte): byte for byte in printable}, **{chr(256 + i): byte for i, byte in enumerate(others)}}
    return bytes(alphabet[character] for character in token)


class Vocabulary:
    """The ids, pieces and merges of a GGUF file."""

    def __init__(self, path):
        metadata = read_metadata(path)

        def get(name):
            return metadata.get("tokenizer.ggml." + name)

        self.model, self.pre = get("model"), get("pre")
        self.pieces, self.kinds, self.scores = get("tokens"), get("token_type"), get("scores")
        self.merges = get("merges")
        self.end = self.pieces[get("eos_token_id")]
        # one piece is unknown; the others of this kind pad the embedding matrix
        self.kinds = [UNUSED if kind == UNKNOWN and id > 0 else kind for id, kind in enumerate(self.kinds)]

    def has_scores(self):
        return self.model == "llama"

    def _added(self):
        return [{"id": id, "content": piece, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": kind == CONTROL}
                for id, (piece, kind) in enumerate(zip(self.pieces, self.kinds))
                if kind in (UNKNOWN, CONTROL, USER_DEFINED)]

    def _merges_of_scores(self):
        """The pairs that a SentencePiece BPE merges, best score first, as transformers converts them."""
        ids = {piece: id for id, (piece, kind) in enumerate(zip(self.pieces, self.kinds)) if kind == NORMAL}
        found = []
        for piece, id in ids.items():
            pairs = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
            pairs = [pair for pair in pairs if pair[0] in ids and pair[1] in ids]
            found += [(self.scores[id], pair) for pair in sorted(pairs, key=lambda pair: [ids[p] for p in pair])]
        found.sort(key=lambda merge: -merge[0])
        return [" ".join(pair) for _, pair in found]

    def write_json(self, path):
        """As tokenizer.json; ids are those of encode(text, add_special_tokens=False)."""
        by_character = self.model in ("llama", "gemma4")
        model = {"type": "BPE", "dropout": None, "unk_token": "<unk>" if by_character else None,
                 "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": by_character,
                 "byte_fallback": by_character, "ignore_merges": self.pre == "llama-bpe"}
        replaced = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
        decoded = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
                   {"type": "ByteFallback"}, {"type": "Fuse"}]
        normalizer, pre_tokenizer = None, None
        if self.model == "llama":  # Llama 2, Phi-3
            normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, replaced]}
            decoded.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        elif self.model == "gemma4":
            normalizer = replaced
            pre_tokenizer = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                             "invert": False}
        else:
            steps, use_regex = PRE_TOKENIZERS[self.pre]
            pre_tokenizer = {"type": "Sequence", "pretokenizers": [*steps, byte_level(use_regex)]}
            if self.pre == "qwen2":
                normalizer = {"type": "NFC"}
        added = self._added()
        # added tokens after those of the vocabulary are not in it
        size = 1 + max(id for id, kind in enumerate(self.kinds) if kind in (NORMAL, BYTE))
        model["vocab"] = {piece: id for id, (piece, kind) in enumerate(zip(self.pieces[:size], self.kinds))
                          if kind != UNUSED}
        model["merges"] = self.merges or self._merges_of_scores()
        path.write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": decoded} if by_character else byte_level(),
            "model": model}))
        (path.parent / "tokenizer_config.json").write_text(json.dumps({"eos_token": self.end}))

    def write_sentencepiece(self, path):
        """As the .model of a vocabulary with scores; needs the packages sentencepiece and protobuf."""
        from sentencepiece import sentencepiece_model_pb2
        model = sentencepiece_model_pb2.ModelProto()
        for id, (piece, score, kind) in enumerate(zip(self.pieces, self.scores, self.kinds)):
            kind = UNKNOWN if id == 0 else kind
            model.pieces.add(piece=piece, score=score, type=kind)
        model.trainer_spec.model_type = model.trainer_spec.BPE
        model.trainer_spec.byte_fallback = True
        model.normalizer_spec.name = "identity"
        model.normalizer_spec.remove_extra_whitespaces = False
        path.write_bytes(model.SerializeToString())
