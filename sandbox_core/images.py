"""The sandbox images of this project, and what can be told of an image by its name alone."""

from sandbox_core.language import Language

__all__ = [
    "DATA_IMAGE",
    "FULL_IMAGE",
    "PYTHON_IMAGE",
    "SLIM_IMAGE",
    "image_name",
    "may_have_language",
]

SLIM_IMAGE = "run-code-slim"
PYTHON_IMAGE = "run-code-python"
DATA_IMAGE = "run-code-data"
FULL_IMAGE = "run-code-full"


def image_name(image: str) -> str:
    """The name without registry, tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def may_have_language(image: str, language: Language) -> bool:
    """Whether this image can have this language: of ours it is known, of others a sandbox has
    to be asked."""
    name = image_name(image)
    if name not in (SLIM_IMAGE, PYTHON_IMAGE, DATA_IMAGE):
        return True
    return language.image != FULL_IMAGE
