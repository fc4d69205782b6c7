"""What a file is, told by its name: its MIME type, and how a chat can show it.

Only the name counts. Open WebUI serves everything but plain text and PDF as a download, so
that a page or a drawing from a sandbox never runs as a page of Open WebUI; a picture shown
by an ``<img>`` runs no script whatever it holds.
"""

from mimetypes import MimeTypes

__all__ = ["can_preview", "is_audio", "is_image", "is_video", "media_type"]

_ANYTHING = "application/octet-stream"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MORE_TYPES = {
    ".avif": "image/avif",
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".flac": "audio/flac",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".parquet": "application/vnd.apache.parquet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".toml": "application/toml",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_PACKED = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
}
_PICTURES = frozenset(
    f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "avif", "svg+xml", "bmp")
)
_READABLE = frozenset(
    {
        "text/plain",
        "text/csv",
        "text/tab-separated-values",
        "text/markdown",
        "application/json",
        "application/jsonl",
    }
)


def _known_types() -> MimeTypes:
    types = MimeTypes()  # the library's own table, without the machine's files
    for suffix, kind in _MORE_TYPES.items():
        types.add_type(kind, suffix)
    return types


_TYPES = _known_types()


def media_type(name: str) -> str:
    """The MIME type of a file of this name; ``application/octet-stream`` when unknown."""
    # A name is no URL: guess_type would cut it at a colon or a question mark.
    suffixed = "file." + ".".join(name.rpartition("/")[2].split(".")[1:][-2:])
    kind, packing = _TYPES.guess_type(suffixed.replace(":", "_"))
    if packing:
        return _PACKED.get(packing, _ANYTHING)
    return kind or _ANYTHING


def is_image(kind: str) -> bool:
    """Whether browsers show this type as a picture."""
    return kind in _PICTURES


def is_audio(kind: str) -> bool:
    """Whether this type is sound."""
    return kind.startswith("audio/")


def is_video(kind: str) -> bool:
    """Whether this type is video."""
    return kind.startswith("video/")


def can_preview(kind: str) -> bool:
    """Whether the start of such a file tells a reader something."""
    return kind in _READABLE
