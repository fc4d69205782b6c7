"""The OpenAPI document, and calls made from it that no person would think of."""

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.codebox.tokens import headers

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_document_shows_what_a_model_may_call(service):
    document = requests.get(f"{service.url}/openapi.json", timeout=30).json()
    operations = {
        call["operationId"]: call
        for path in document["paths"].values()
        for call in path.values()
    }
    assert set(operations) == {"run_code", "list_languages", "list_packages"}
    assert all(call["summary"] for call in operations.values())
    assert document["security"] == [{"bearer": []}]
    body = operations["run_code"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert body == {"$ref": "#/components/schemas/RunBody"}
    assert "code" in document["components"]["schemas"]["RunBody"]["properties"]


def test_calls_made_from_the_document_get_documented_answers(start_service):
    service = start_service(exec_timeout=2, max_waiting=5)
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    seen = set()
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=25,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def call(case):
            case.call_and_validate(headers=headers(), checks=CHECKS, timeout=30)

        call()
        seen.add(operation.path)
    assert "/v1/run" in seen
