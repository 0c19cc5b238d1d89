"""API endpoints that upload and download context files. Downloads have types that browsers do not execute."""

from functools import partial
from typing import Annotated, Any

from fastapi import Path, Request, Response

from assent.breakpoints.api.content import file_response
from assent.breakpoints.store.files import Files
from assent.breakpoints.usecases.inbox import InboxService
from assent.contracts import breakpoints as wire
from assent.core.access import Permission
from assent.core.canonical import sha256
from assent.db.transaction import Transaction
from assent.http.endpoint import Who, With, router
from assent.http.query import known_id

files = router("files")
_BYTES: dict[str, Any] = {
    "requestBody": {
        "required": False,
        "description": "An empty body creates an empty file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@files.post("/files", status_code=201, summary="Uploads a context file", openapi_extra=_BYTES)
async def upload(request: Request, who: Who, services: With) -> wire.UploadedFile:
    who.require(Permission.UPLOAD)
    content = await request.body()
    digest = sha256(content)
    await services.database.write(partial(_keep, project=who.project, digest=digest, content=content))
    return wire.UploadedFile(sha256=digest, size=len(content))


def _keep(tx: Transaction, *, project: str, digest: str, content: bytes) -> None:
    tx[Files].put(project, digest, content, at=tx.now())


@files.get(
    "/breakpoints/{breakpoint_id}/files/{n}",
    response_class=Response,
    responses={200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}},
    summary="Downloads a context file",
)
async def download(breakpoint_id: str, n: Annotated[int, Path(ge=0, le=99)], who: Who, services: With) -> Response:
    # Raises if the caller cannot see the breakpoint; files do not have separate permissions.
    row = await services[InboxService].status(known_id(breakpoint_id), who)
    entry = await services.database.read(lambda tx: tx[Files].get_entry(row.id, n, project=who.project))
    return file_response(entry)
