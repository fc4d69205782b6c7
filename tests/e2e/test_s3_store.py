"""Open WebUI with its files in an S3 bucket, and what a run says when the bucket is away."""

import secrets
from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

from scripts.bringup.plugins import install, plugin_files
from scripts.bringup.process import free_port
from tests.e2e.file_runs import LINK, plain, run_in
from tests.owui.client import ChatClient
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel
from tests.owui.server import OpenWebUIServer

BUCKET, KEY, SECRET, REGION = "files", "an-access-key", "a-secret-key", "us-east-1"


class Store:
    """An S3 server of the loopback that can go away and come back; moto keeps the objects."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.up()
        self.bucket().create()

    def up(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()

    def down(self) -> None:
        self._server.stop()

    def contents(self) -> list[bytes]:
        """All objects' bytes."""
        return [entry.get()["Body"].read() for entry in self.bucket().objects.all()]

    def bucket(self):  # type: ignore[no-untyped-def]
        """boto3's resource of our bucket."""
        return boto3.resource(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(retries={"max_attempts": 1}),
        ).Bucket(BUCKET)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.down()


@pytest.fixture(scope="module")
def person(
    store: Store, model_server: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ChatClient]:
    """The administrator of a server that keeps its files there."""
    environment = {
        "STORAGE_PROVIDER": "s3",
        "S3_ENDPOINT_URL": store.url,
        "S3_BUCKET_NAME": BUCKET,
        "S3_ACCESS_KEY_ID": KEY,
        "S3_SECRET_ACCESS_KEY": SECRET,
        "S3_REGION_NAME": REGION,
        # One attempt, and no wait: the store of this test is away on purpose.
        "AWS_MAX_ATTEMPTS": "1",
        "RUN_CODE_WARM_SANDBOXES": "0",
    }
    folder = tmp_path_factory.mktemp("open-webui-s3")
    server = OpenWebUIServer(folder, model_server.url, environment)
    try:
        server.start()
        client = ChatClient(server.url, model=MODEL)
        client.sign_up("Sue Store", "sue@example.com", secrets.token_urlsafe(12))
        client.publish_model(MODEL)
        install(client, plugin_files())
        yield client
    finally:
        server.stop()


def test_F07_files_come_from_the_bucket_and_go_there(
    store: Store, person: ChatClient, model: ScriptedModel
) -> None:
    attached = person.upload_file("numbers.csv", b"1,2\n", "text/csv")
    lost = person.upload_file("lost.csv", b"3,4\n", "text/csv")
    for entry in store.bucket().objects.all():
        if entry.key.endswith("lost.csv"):
            entry.delete()
    model.script(Reply("ok"))
    chat_id, _ = person.ask("look", files=[attached, lost])
    code = "text = open('numbers.csv').read(); open('twice.csv', 'w').write(text * 2)"
    told = plain(run_in(person, model, code, chat_id=chat_id)[1])
    assert "“lost.csv” is not in the work folder: it could not be read" in told
    assert person.download(LINK.findall(told)[0]) == b"1,2\n1,2\n"
    assert b"1,2\n1,2\n" in store.contents()

    store.down()
    try:
        code = "import os; print(os.listdir()); open('new.txt', 'w').write('new')"
        told = plain(run_in(person, model, code, chat_id=chat_id)[1])
    finally:
        store.up()
    assert "['main.py']" in told
    assert "“numbers.csv” is not in the work folder: it could not be read" in told
    assert "new.txt: " in told
    assert LINK.findall(told) == []
    told = plain(
        run_in(person, model, "print(open('twice.csv').read())", chat_id=chat_id)[1]
    )
    assert "1,2\n1,2\n" in told
