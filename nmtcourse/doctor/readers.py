"""The readers of `nmtcourse.formats`, by the name that an installation of before knows them."""

from nmtcourse.formats.readers import read_csv, read_json, read_jsonl, read_tmx

__all__ = ["read_csv", "read_json", "read_jsonl", "read_tmx"]
