"""The environment in which an Open WebUI that we start runs.

It inherits nothing but what is named here: Open WebUI reads hundreds of variables, and a
stray `PORT` or `DATABASE_URL` of the caller's shell must not reach it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["open_webui_environment"]

_INHERITED = {"HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME"}
_INHERITED_PREFIXES = (
    "DOCKER_",
    "RUN_CODE_",
    "PIP_",
    "SSL_CERT_",
    "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)
# No look-ups for updates, no model downloads, no statistics.
_QUIET = {
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "SCARF_NO_ANALYTICS": "true",
    "DO_NOT_TRACK": "true",
    "ANONYMIZED_TELEMETRY": "false",
    "ENABLE_COMMUNITY_SHARING": "false",
}


def open_webui_environment(
    *,
    venv: Path,
    data_dir: Path,
    url: str,
    secret_key: str,
    models_url: str,
    models_key: str,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the whole environment of one Open WebUI process.

    `models_url` is the OpenAI-compatible API (with `/v1`) that serves chat models and
    embeddings; `extra` wins over everything else. Called by scripts/up and by the tests.
    """
    return {
        **_inherited(),
        **_QUIET,
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONUNBUFFERED": "1",
        "DATA_DIR": str(data_dir),
        "WEBUI_SECRET_KEY": secret_key,
        "WEBUI_URL": url,
        "CORS_ALLOW_ORIGIN": url,
        "ENABLE_OLLAMA_API": "false",
        "ENABLE_OPENAI_API": "true",
        "OPENAI_API_BASE_URL": models_url,
        "OPENAI_API_KEY": models_key,
        # The default engine would fetch an embedding model from a hub at start-up.
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_OPENAI_API_BASE_URL": models_url,
        "RAG_OPENAI_API_KEY": models_key,
        "ENABLE_EVALUATION_ARENA_MODELS": "false",
        **(extra or {}),
    }


def _inherited() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or name.upper().startswith(_INHERITED_PREFIXES)
    }
