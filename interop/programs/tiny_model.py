"""Writes a model file for llama.cpp: tiny_model.py FILE.

The model has no knowledge. Its tokens are bytes, its layer adds nothing, and its output depends on the last token only:
after the end of a prompt it says "Ok." and stops. That takes 100 KB.
"""
import sys

import gguf
import numpy

ANSWER = "Ok."
SPECIAL = 3
# What the tokenizer makes of a space.
SPACE = "\u2581"
TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Call one as <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
WIDTH, HEAD, INNER = 32, 16, 32


def main(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(131072)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    words(writer)
    weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def words(writer):
    special = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)] + [SPACE.encode()]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for kind in special + [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)


def weights(writer):
    count = SPECIAL + 256 + len(SPACE)
    # The line break after "assistant", the answer, the end: each has a direction of its own, and points to the next.
    chain = [SPECIAL + byte for byte in b"\n" + ANSWER.encode()] + [2]
    seen, output = numpy.zeros((2, count, WIDTH), numpy.float32)
    for direction, (token, following) in enumerate(zip(chain, chain[1:])):
        seen[token, direction] = 1
        output[following, direction] = 50
    nothing = lambda *shape: numpy.zeros(shape, numpy.float32)
    writer.add_tensor("token_embd.weight", seen)
    writer.add_tensor("output.weight", output)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", numpy.ones(WIDTH, numpy.float32))
    for name in ("attn_q", "attn_k", "attn_v"):
        writer.add_tensor(f"blk.0.{name}.weight", nothing(HEAD, WIDTH))
    writer.add_tensor("blk.0.attn_output.weight", nothing(WIDTH, HEAD))
    for name in ("ffn_gate", "ffn_up"):
        writer.add_tensor(f"blk.0.{name}.weight", nothing(INNER, WIDTH))
    writer.add_tensor("blk.0.ffn_down.weight", nothing(WIDTH, INNER))


if __name__ == "__main__":
    main(sys.argv[1])
