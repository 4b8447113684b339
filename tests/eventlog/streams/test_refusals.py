"""Each wording of a refusal, as providers document or users report it, has its kind."""

from __future__ import annotations

from datetime import UTC, datetime
from email.message import Message
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest

from eventlog.errors import StreamError
from eventlog.streams.refusals import KINDS, Kind, kind_of, refusal_kind, status_of
from eventlog.streams.retry_after import asked_wait

Said = tuple[int | None, str | None, str]
"""Status, code and text of a refusal."""
WORDINGS: dict[str, list[Said]] = {
    "overflow": [
        (400, "context_length_exceeded", "This model's maximum context length is 128000 tokens. However, …"),
        (400, None, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, None, "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000, decrease"),
        (413, None, "Request exceeds the maximum size"),
        (400, None, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        (400, None, "Input is too long for requested model."),
        (400, None, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
        (400, "exceed_context_size_error", "the request exceeds the available context size, try increasing it"),
        (400, "model_max_prompt_tokens_exceeded", "prompt token count of 130000 exceeds the limit of 128000"),
        (400, None, "Invalid request: Your request exceeded model token limit: 131072"),
        (400, "1261", "Prompt exceeds max length"),
        (400, None, "Range of input length should be [1, 98304]"),
        (400, None, "The prompt (length 5000) is longer than the maximum model length of 4096."),
        (400, None, "Prompt contains 40726 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
        (400, None, "Prompt too long: 41911 tokens exceeds max context window of 32768 tokens"),
        (None, "context_length_exceeded", "Your input exceeds the context window of this model."),
    ],
    "media": [
        (400, None, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6553600 bytes > 5242880 bytes"),
        (400, "invalid_image_url", "Error while downloading https://example.org/a.png"),
        (400, None, "Unable to process input image."),
        (404, None, "No endpoints found that support image input"),
    ],
    "rate": [
        (429, "rate_limit_exceeded", "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000"),
        (413, "rate_limit_exceeded", "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000"),
        (429, None, "This request would exceed your organization's rate limit of 40,000 input tokens per minute"),
        (429, None, "429 RESOURCE_EXHAUSTED. You exceeded your current quota, please check your plan and billing details."),
        (429, None, "Resource has been exhausted (e.g. check quota)."),
        (400, "Throttling.RateQuota", "Requests rate limit exceeded, please try again later."),
        (429, "1302", "High concurrency usage of this API"),
        (429, None, "too many tokens"),
        (429, None, "slow down"),
        (None, "rate_limit_error", "Number of request tokens has exceeded your limit"),
    ],
    "opaque-state": [
        (400, "invalid_encrypted_content", "The encrypted content gAAA could not be verified."),
        (400, None, "The encrypted content for item rs_1 could not be verified. Reason: Encrypted content could not be decrypted"),
        (404, None, "Item with id 'rs_0de7' not found. Items are not persisted when `store` is set to false."),
        (400, None, "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
        (400, None, "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."),
        (400, "previous_response_not_found", "Previous response with id 'resp_1' not found."),
        (400, None, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        (400, None, "messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
        (400, None, "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."),
        (400, None, "Corrupted thought signature."),
        (400, None, "Thought signature is not valid"),
    ],
    "billing": [
        (429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."),
        (400, None, "Your credit balance is too low to access the Anthropic API."),
        (402, None, "Insufficient Balance"),
        (402, None, "This request requires more credits, or fewer max_tokens."),
        (429, "1113", "Insufficient balance or no resource package. Please recharge."),
        (429, None, "余额不足或无可用资源包,请充值。"),
        (403, None, "Your team t has either used all available credits or reached its monthly spending limit."),
        (403, "exceeded_current_quota_error", "Your account is not active, organization exceeded current quota"),
        (400, "Arrearage", "Access denied, please make sure your account is in good standing."),
        (429, None, "429 RESOURCE_EXHAUSTED. Quota exceeded for metric: x, limit: 0, model: gemini-2.5-pro"),
        (402, None, "pay"),
    ],
    "auth": [
        (401, "invalid_api_key", "Incorrect API key provided: sk-…"),
        (401, None, "invalid x-api-key"),
        (403, None, "Your API key does not have permission to use the specified resource."),
        (400, None, "400 INVALID_ARGUMENT. API key not valid. Please pass a valid API key."),
        (403, "unsupported_country_region_territory", "Country, region, or territory not supported"),
    ],
    "content-filter": [
        (400, "content_filter", "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."),
        (400, None, "Output blocked by content filtering policy"),
        (400, "data_inspection_failed", "Input data may contain inappropriate content."),
        (400, "invalid_prompt", "Invalid prompt: your prompt was flagged as potentially violating our usage policy."),
        (403, None, "Your chosen model requires moderation and your input was flagged"),
        (400, "1301", "unsafe or sensitive content"),
    ],
    "unknown-model": [
        (404, "model_not_found", "The model `gpt-9` does not exist or you do not have access to it."),
        (404, None, "{'type': 'error', 'error': {'type': 'not_found_error', 'message': 'model: claude-9'}}"),
        (404, None, "models/gemini-9 is not found for API version v1beta"),
        (400, None, "acme/x is not a valid model ID"),
        (404, None, "No endpoints found for acme/vision"),
        (400, "invalid_model", "Invalid model: mistral-x"),
        (400, None, "Model Not Exist"),
        (404, None, 'model "x" not found, try pulling it first'),
        (400, "model_decommissioned", "The model `x` has been decommissioned and is no longer supported."),
        (400, "1211", "the model is not there"),
    ],
    "transient": [
        (500, None, "The server had an error while processing your request"),
        (503, None, "The model is overloaded. Please try again later."),
        (529, None, "Overloaded"),
        (408, None, "timeout"),
        (409, None, "conflict"),
        (None, "overloaded_error", "Overloaded"),
        (None, "server_error", "The server had an error"),
        (None, None, "{'type': 'error', 'error': {'type': 'api_error', 'message': 'Internal server error'}}"),
    ],
}  # fmt: skip
NONE: list[Said] = [
    (400, None, "messages: text content blocks must be non-empty"),
    (400, None, "tool_use ids must be unique"),
    (400, "invalid_request_error", "Unsupported parameter: 'temperature'"),
    (404, None, "not found"),
    (422, None, "max_tokens: 900000 > 64000"),
    (None, "invalid_request_error", "no"),
]
SAID = [(kind, said) for kind, wordings in WORDINGS.items() for said in wordings]


def test_every_kind_has_wordings() -> None:
    """No kind of the table is without one."""
    assert set(WORDINGS) == set(KINDS)


@pytest.mark.parametrize(("kind", "said"), SAID)
def test_a_wording_has_its_kind(kind: Kind, said: Said) -> None:
    """The status, the code and the words of a provider say what was refused."""
    assert kind_of(*said) == kind


@pytest.mark.parametrize("said", NONE)
def test_other_refusals_have_no_kind(said: Said) -> None:
    """A request whose form is refused is none of the kinds."""
    assert kind_of(*said) is None


class ClientError(Exception):
    """An error of a client: `status_code` of openai and anthropic, `code` of google-genai."""

    def __init__(self, text: str, headers: dict[str, str] | None = None, **fields: Any) -> None:
        super().__init__(text)
        self.response = SimpleNamespace(headers=headers or {})
        vars(self).update(fields)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ClientError("x", status_code=401), 401, "auth"),
        (ClientError("429 RESOURCE_EXHAUSTED", code=429), 429, "rate"),
        (ClientError("{'error': {'type': 'overloaded_error'}}", status_code=200), None, "transient"),
        (ClientError("x", status_code=400, code="insufficient_quota"), 400, "billing"),
        (StreamError("x", code="context_length_exceeded"), None, "overflow"),
        (StreamError("x", status_code=502), 502, "transient"),
        (ValueError("x"), None, None),
    ],
    ids=str,
)
def test_the_errors_of_clients_are_read(error: Exception, status: int | None, kind: Kind | None) -> None:
    """Each client names its status in another way; an error inside a stream has none."""
    assert (status_of(error), refusal_kind(error)) == (status, kind)


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"retry-after": "7"}, "", 7.0),
        ({"retry-after": "7", "retry-after-ms": "1500"}, "", 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:09 GMT"}, "", 9.0),
        ({"retry-after": "soon"}, "Please try again in 20s.", 20.0),
        ({}, "Please try again in 6m0s. Visit", 360.0),
        ({}, "Please try again in 7m12.5s", 432.5),
        ({}, "Please try again in 28ms", 0.028),
        ({}, "'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '26s'", 26.0),
        ({}, "Please retry in 20.04466179s.", 20.04466179),
        ({}, "Please retry after 12 seconds.", 12.0),
        ({}, "please try again after 1 seconds", 1.0),
        ({"retry-after": "inf"}, "slow down", None),
        ({}, "slow down", None),
    ],
)
def test_the_wait_that_is_asked_for_is_read(headers: dict[str, str], text: str, seconds: float | None) -> None:
    """From headers, in seconds, milliseconds or as a date, and from the words of the error."""
    error = ClientError(text, headers, status_code=429)
    assert asked_wait(error, lambda: datetime(2026, 1, 1, tzinfo=UTC)) == seconds


def test_an_error_that_is_the_answer_itself_has_the_headers() -> None:
    """The standard library's error has no `response`, and a status and headers of its own."""
    headers = Message()
    headers["Retry-After"] = "7"
    error = HTTPError("https://provider.test", 429, "Too Many Requests", headers, None)
    assert (asked_wait(error), status_of(error), refusal_kind(error)) == (7.0, 429, "rate")


def test_an_error_without_an_answer_asks_for_no_wait() -> None:
    """Another exception has no headers."""
    assert asked_wait(ValueError("x")) is None
