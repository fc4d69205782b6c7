"""The MCP side: the same runs as tools of a streamable HTTP MCP server."""

import base64
import inspect
from typing import Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent
from pydantic import BaseModel, Field

from codebox.identity import Identity
from codebox.openwebui import FileRefused, OpenWebUI
from codebox.refusals import CAUSES, refusal_for
from codebox.service import Service
from sandbox_core.call_input import read_call
from sandbox_core.egress import describe_network
from sandbox_core.errors import InvalidRequest
from sandbox_core.images import may_have_language
from sandbox_core.installer import PACKAGES_OFF
from sandbox_core.languages import known_languages
from sandbox_core.limits import MIB
from sandbox_core.listing import list_languages_text, list_packages_text
from sandbox_core.models import (
    Display,
    InputFile,
    OutputFile,
    RunRequest,
    RunResult,
    Step,
)
from sandbox_core.render_model import render_for_model, render_refusal_for_model

__all__ = ["CALLER", "CANCEL", "FileToPlace", "make_mcp_server"]

# Where the guard in front leaves who calls, and takes the way to end the run.
CALLER = "codebox.caller"
CANCEL = "codebox.cancel"
_MODEL_BYTES = 16 * 1024
_MOST_IMAGES = 4
_LARGEST_IMAGE = 2 * MIB
_MOST_FILES = 20


class FileToPlace(BaseModel):
    """A file of Open WebUI, and where the program finds it."""

    id: str = Field(description="Id of the file in Open WebUI.")
    path: str = Field(description="Relative name in the work folder.")


def make_mcp_server(service: Service) -> MCPServer[Any]:
    """The server with its tools. With session tokens, runs can have files of Open WebUI."""
    server: MCPServer[Any] = MCPServer("codebox", instructions=_about(service))
    calls = _Calls(service)
    run = calls.run_code_with_files if service.openwebui else calls.run_code
    # The tool's schema is made of the annotations.
    getattr(_Calls, run.__name__).__annotations__["language"] = Literal[
        _names_of_languages(service)
    ]
    about = f"{inspect.getdoc(run)}\n{describe_network(service.settings.network)}"
    server.add_tool(run, name="run_code", description=about, structured_output=False)
    server.add_tool(calls.list_packages, name="list_packages", structured_output=False)
    server.add_tool(
        calls.list_languages, name="list_languages", structured_output=False
    )
    return server


def _names_of_languages(service: Service) -> tuple[str, ...]:
    """Those that the images may have, as far as their names tell it."""
    settings = service.settings
    return tuple(
        entry.name
        for entry in known_languages()
        if may_have_language(settings.image_for(entry.name), entry)
    )


def _about(service: Service) -> str:
    limits = service.settings.limits
    return (
        "Runs programs in fresh, isolated Linux sandboxes. "
        f"{describe_network(service.settings.network)} Limits: "
        f"{limits.seconds:g} s, {limits.memory_mib} MB memory, {limits.cpus:g} CPU."
    )


class _Calls:
    """What the tools do."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def run_code(
        self,
        code: str,
        ctx: Context,
        language: str = "python",
        stdin: str = "",
        packages: list[str] | None = None,
    ) -> CallToolResult:
        """Run a program in a fresh, isolated Linux sandbox and get what it prints.

        Print what you want to see; in Python the value of a last bare expression is returned
        too, and PNG files that the program writes come back as images. Nothing persists:
        each call starts with an empty work folder (/mnt/data). packages names Python packages
        to install first, where the service allows it.
        """
        return await self._run(ctx, code, language, stdin, packages, [], [])

    async def run_code_with_files(
        self,
        code: str,
        ctx: Context,
        language: str = "python",
        stdin: str = "",
        packages: list[str] | None = None,
        input_files: list[FileToPlace] | None = None,
        output_files: list[str] | None = None,
    ) -> CallToolResult:
        """Run a program in a fresh, isolated Linux sandbox and get what it prints.

        Print what you want to see; in Python the value of a last bare expression is returned
        too, and PNG files that the program writes come back as images. Nothing persists:
        each call starts with a work folder (/mnt/data) that holds input_files, each at its
        path, and nothing else. Files named in output_files are stored for the user, with
        their ids in the answer. packages names Python packages to install first, where the
        service allows it.
        """
        placed, wanted = input_files or [], output_files or []
        return await self._run(ctx, code, language, stdin, packages, placed, wanted)

    async def list_packages(self, ctx: Context, filter: str = "") -> CallToolResult:
        """List the Python packages that programs can use, with their versions.

        With a filter, only those whose names contain one of its words.
        """
        try:
            user = await self._admit(ctx)
            found = await self._service.inventories.of_python(user)
        except CAUSES as cause:
            return self._refused(cause)
        return _answer(list_packages_text(found, filter))

    async def list_languages(self, ctx: Context, filter: str = "") -> CallToolResult:
        """List the programming languages that can be run, with their versions.

        With a filter, only those whose names contain one of its words.
        """
        try:
            user = await self._admit(ctx)
            versions = await self._service.inventories.languages(user)
        except CAUSES as cause:
            return self._refused(cause)
        return _answer(list_languages_text(versions, filter))

    async def _admit(self, ctx: Context) -> str:
        caller = _caller(ctx)
        await self._service.count_call(caller.user)
        self._service.check_ready()
        return caller.user

    async def _run(
        self,
        ctx: Context,
        code: str,
        language: str,
        stdin: str,
        packages: list[str] | None,
        placed: list[FileToPlace],
        wanted: list[str],
    ) -> CallToolResult:
        try:
            caller = _caller(ctx)
            await self._service.count_call(caller.user)
            program, known = read_call(code, language)
            if packages and self._service.settings.installs is None:
                raise InvalidRequest(PACKAGES_OFF)
            files = await self._read_files(caller, placed)
            request = RunRequest(
                steps=(Step(known.name, program),),
                files=files,
                stdin=stdin.encode("utf-8", "replace"),
                limits=self._service.settings.limits,
                user=caller.user,
                chat=caller.chat,
                packages=tuple(packages or ()),
            )
            ticket = self._service.start(request)
            _scope(ctx)[CANCEL].append(ticket.cancel.cancel)
            result = await ticket.result()
            try:
                notes = await self._store_files(caller, result, wanted)
                return _answer(render_for_model(result, _MODEL_BYTES, notes), result)
            finally:
                for entry in result.contents:
                    entry.content.close()
        except CAUSES as cause:
            return self._refused(cause)

    async def _read_files(
        self, caller: Identity, placed: list[FileToPlace]
    ) -> tuple[InputFile, ...]:
        if not placed:
            return ()
        openwebui = self._session(caller)
        if len(placed) > _MOST_FILES:
            raise InvalidRequest(f"Give at most {_MOST_FILES} files.")
        files = []
        room = self._service.settings.limits.work_mib * MIB
        for entry in placed:
            data = await openwebui.read_file(caller.session, entry.id, room)
            room -= len(data)
            files.append(InputFile(entry.path, data))
        return tuple(files)

    async def _store_files(
        self, caller: Identity, result: RunResult, wanted: list[str]
    ) -> list[str]:
        """Notes for the model on where the wanted files went."""
        if not wanted:
            return []
        openwebui = self._session(caller)
        made = {file.name: file for file in result.files}
        notes = []
        for name in wanted[:_MOST_FILES]:
            if name not in made:
                notes.append(f"The program made no file {name}.")
                continue
            file_id = await openwebui.store_file(
                caller.session, name, made[name].content
            )
            made[name].content.seek(0)
            notes.append(f"{name} is stored: /api/v1/files/{file_id}/content")
        return notes

    def _session(self, caller: Identity) -> OpenWebUI:
        if self._service.openwebui is None or not caller.session:
            raise FileRefused(
                "Files need a call with the user's own Open WebUI session (auth type "
                "“session”)."
            )
        return self._service.openwebui

    def _refused(self, cause: Exception) -> CallToolResult:
        refusal = refusal_for(cause)
        self._service.metrics.count_refusal(refusal.reason)
        text = render_refusal_for_model(refusal.sentence)
        return CallToolResult(
            content=[TextContent(type="text", text=text)], is_error=True
        )


def _scope(ctx: Context) -> Any:
    request = ctx.request_context.request
    if request is None:
        raise InvalidRequest("These tools are served over HTTP only.")
    return request.scope


def _caller(ctx: Context) -> Identity:
    caller: Identity = _scope(ctx)[CALLER]
    return caller


def _answer(text: str, result: RunResult | None = None) -> CallToolResult:
    content: list[Any] = [TextContent(type="text", text=text)]
    images = [entry for entry in result.contents if _is_image(entry)] if result else []
    for file in images[:_MOST_IMAGES]:
        data = base64.b64encode(file.content.read()).decode("ascii")
        content.append(ImageContent(type="image", data=data, mime_type="image/png"))
    return CallToolResult(content=content)


def _is_image(file: OutputFile | Display) -> bool:
    return file.name.lower().endswith(".png") and file.size <= _LARGEST_IMAGE
