"""Kinds of refusals: one table of the words by which providers refuse a request.

The first row that fits decides. A row's words come from the documentation or the report that its
comment names. Statuses decide where no words do.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "overflow", "media", "rate", "opaque-state", "billing", "auth", "content-filter", "unknown-model", "transient"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
OVERFLOW: Kind = "overflow"
"""The request is too large."""
MEDIA: Kind = "media"
"""An image or a document is refused."""
RATE: Kind = "rate"
"""Too many requests or tokens for now."""
OPAQUE: Kind = "opaque-state"
"""A signature, a cipher or an id of the provider's own is not accepted."""
TRANSIENT: Kind = "transient"
"""The provider failed; the same request may succeed."""

_STATUSES = range(400, 600)
_SERVER = range(500, 600)
_REFUSED = frozenset({None, 400, 404, 413, 415, 422})
"""Statuses of a request that is refused for its content; None: an error inside a stream."""
_ANY = frozenset({None, *range(400, 500)})


class _Row(NamedTuple):
    """Words of one kind: codes are compared, words are searched in code and text."""

    kind: Kind
    words: tuple[str, ...]
    codes: tuple[str, ...] = ()
    statuses: frozenset[int | None] = _ANY


_TABLE = (
    _Row(
        "billing",
        (
            "insufficient_quota|billing_(?:hard_limit|not_active)",  # platform.openai.com/docs/guides/error-codes (429)
            r"^(?!.*(?:RESOURCE_EXHAUSTED|ai\.google\.dev)).*exceeded your current quota",  # the same; Gemini's is a rate
            r"RESOURCE_EXHAUSTED.*\blimit: 0\b|\blimit: 0\b.*RESOURCE_EXHAUSTED",  # continuedev/continue#10062
            "billing_error",  # docs.anthropic.com/en/api/errors (402)
            "credit balance is too low",  # anthropics/claude-code#4684 (400)
            "insufficient[ _](?:balance|credits?|funds)",  # api-docs.deepseek.com, openrouter.ai/docs/errors (402)
            "requires more credits",  # can1357/oh-my-pi#9569 (OpenRouter, 402)
            "used all available credits|run out of credits",  # continuedev/continue#10373, Wei-Shaw/sub2api#4069 (xAI)
            "exceeded_current_quota|exceeded current quota",  # MoonshotAI/Kimi-K2#5 (403), opencode#24462 (429)
            "余额不足",  # GLM in Chinese: continuedev/continue#11823 (429)
            r"\barrearage\b|in arrears",  # help.aliyun.com, model-studio error codes (DashScope, 400)
        ),
        (
            "1113",  # GLM: anthropics/claude-code#9201 (429)
            "payment_required",  # OpenRouter
        ),
    ),
    _Row(
        "rate",
        (
            r"rate[ _-]?limit|too many requests",  # OpenAI, Anthropic, Mistral (docs.mistral.ai error-glossary), Moonshot
            r"(?:tokens?|requests?) per (?:min|day|hour)|\b[TR]P[MD]\b",  # OpenAI and Groq, also with 413
            "RESOURCE_EXHAUSTED|resource (?:has been )?exhausted",  # Gemini: googleapis/python-genai#2065
            "quota exceeded for",  # google-gemini/gemini-cli#10925
            "throttling",  # DashScope "Throttling.RateQuota", Bedrock "ThrottlingException"
            "reached max request",  # Moonshot: harry0703/MoneyPrinterTurbo#339
        ),
        ("1302", "1303", "1304", "1305", "1308", "1310"),  # GLM: docs.bigmodel.cn/cn/api/api-code
    ),
    _Row(
        "opaque-state",
        (
            "invalid_encrypted_content",  # OpenAI Responses: openai/codex#8145
            "encrypted content.{0,400}could not be (?:verified|decrypted)",  # openai/codex#8119
            r"item with id '?[\w-]+'? not found|items are not persisted",  # vercel/ai#7543 (404 or 400)
            "without its required (?:following|preceding|'?reasoning)",  # platform.openai.com, reasoning guide
            "previous_response_not_found|previous response with id",  # bigduu/Bamboo-agent#64
            "invalid `?signature`? in `?thinking",  # Anthropic: anthropics/claude-code#10627
            "invalid `?data`? in `?redacted_thinking|redacted_thinking`? blocks.{0,80}cannot be modified",  # the same API
            r"(?:corrupted|invalid) thought[ _]?signature|thought[ _]?signature is not valid",  # Gemini: opencode#4832
        ),
        statuses=_REFUSED,
    ),
    _Row(
        "media",
        (
            # Anthropic: docs.anthropic.com/en/docs/build-with-claude/vision and pdf-support
            r"\bimages? (?:exceeds?|dimensions?|size|too large|is too|file|data|media|url|input)|too many (?:images|documents)",
            r"(?:image|pdf|document)\.source|pdf pages|images? do(?:es)? not match|provided media type",
            # OpenAI: platform.openai.com/docs/guides/images-vision; reports of "unsupported image"
            r"(?:process|decode|parse|read|download|load|fetch)\w*(?: \w+){0,3} (?:image|pdf|file|document|media)\b",
            r"(?:invalid|unsupported|corrupt\w*|bad|malformed)[ _](?:base64[ _])?(?:image|pdf|media|mime)|image_(?:parse|url|too)",
            # Gemini says "Provided image is not valid"; llama.cpp, vLLM and OpenRouter have others
            r"(?:image|pdf|document|media|mime)\W?(?: type| format| input)?\W? (?:is|are|was|were) (?:not|in)\b",
            r"(?:not|n't) support (?:image|pdf|document|vision|media|file)|that support (?:image|pdf|document|vision|media|file)",
            "provided image|multimodal|unsupported mime",
        ),
        statuses=frozenset({None, 400, 413, 415, 422}),
    ),
    _Row(
        "media",
        ("no endpoints? .*support (?:image|pdf|document|vision|media|file)",),  # OpenRouter
        statuses=frozenset({404}),
    ),
    _Row(
        "content-filter",
        (
            "content_filter|content management policy|ResponsibleAIPolicyViolation",  # Azure: openai/openai-python#331
            "content_policy_violation|violat\\w+ our usage polic",  # OpenAI
            "blocked by content filter",  # Anthropic: "Output blocked by content filtering policy"
            "input was flagged|requires moderation",  # openrouter.ai/docs/errors (403)
            "data_?inspection_?failed|inappropriate content",  # DashScope: QwenLM/qwen-code#2905, camel-ai/owl#432
            "PROHIBITED_CONTENT",  # ai.google.dev, BlockedReason
        ),
        ("1301",),  # GLM: docs.bigmodel.cn/cn/api/api-code
    ),
    _Row(
        "unknown-model",
        (
            "model_not_found|model_decommissioned|DeploymentNotFound",  # OpenAI; console.groq.com/docs/errors; Azure
            "unknown_model|invalid[ _]model\\b",  # docs.mistral.ai/resources/error-glossary
            r"\bmodels?\b[/: `'\"]*[\w./:@-]*[`'\"]* (?:does not exist|(?:is |was )?not found)",  # OpenAI, Gemini, vLLM, Ollama
            "model not exist|not a valid model",  # DeepSeek, DashScope; OpenRouter
            "no endpoints? found for",  # OpenRouter (404)
            r"not_found_error.*\bmodel: ",  # Anthropic: docs.anthropic.com/en/api/errors
        ),
        ("1211",),  # GLM: docs.bigmodel.cn/cn/api/api-code
        statuses=_REFUSED,
    ),
    _Row(
        "overflow",
        (
            "context_length_exceeded|maximum context length",  # OpenAI, DeepSeek, vLLM; Mistral "too large for model with …"
            "prompt (?:is )?too long|exceed context limit|exceeds the maximum size|request_too_large",  # Anthropic, oMLX
            "input token count .*exceeds",  # Gemini
            "input is too long|too many (?:input )?tokens",  # Bedrock
            "maximum prompt length",  # xAI
            "exceed_context_size|exceeds? the available context",  # llama.cpp
            "model_max_prompt_tokens_exceeded",  # GitHub Copilot
            "exceeded model token limit",  # Moonshot
            "prompt exceeds max",  # GLM, mlx-serve
            "range of input length should be",  # DashScope
            "longer than the maximum model length",  # vLLM
            "context the overflows|greater than the context length",  # LM Studio: cline/cline#3664
            r"context[ _-]?(?:length|window|limit|size)|maximum context|request (?:is )?too large",  # others
        ),
        ("1261",),  # GLM: docs.bigmodel.cn/cn/api/api-code
        statuses=frozenset({None, 400, 413, 422}),
    ),
    _Row(
        "auth",
        (
            "invalid_api_key|api[ _]?key not valid|API_KEY_INVALID",  # OpenAI; Gemini (400)
            "authentication_error|permission_error",  # docs.anthropic.com/en/api/errors
            "unsupported_country_region_territory",  # OpenAI (403)
        ),
        ("1000", "1001", "1002", "1003", "1004"),  # GLM
    ),
    _Row(
        "transient",
        (
            "overloaded|server_error|internal_error",  # Anthropic "overloaded_error"; OpenAI; Moonshot
            r"\bapi_error|timeout_error",  # docs.anthropic.com/en/api/errors, inside a stream
            r"\bUNAVAILABLE\b|\bDEADLINE_EXCEEDED\b",  # ai.google.dev/gemini-api/docs/troubleshooting
        ),
        statuses=frozenset({None}),
    ),
)
_PATTERNS = [(row, re.compile("|".join(row.words), re.IGNORECASE | re.DOTALL)) for row in _TABLE]
_BY_STATUS: dict[int, Kind] = {
    401: "auth",
    402: "billing",
    403: "auth",
    408: TRANSIENT,
    409: TRANSIENT,
    413: OVERFLOW,
    425: TRANSIENT,
    429: RATE,
}


def kind_of(status: int | None, code: object, text: str) -> Kind | None:
    """Return the kind of a refusal, or of a failure; None for another one.

    `status` is that of HTTP, None for an error inside a stream; `code` and `text` are the
    provider's.
    """
    if status in _SERVER:
        return TRANSIENT
    said = code if isinstance(code, str) else ""
    for row, words in _PATTERNS:
        if status in row.statuses and (said in row.codes or words.search(f"{said} {text}") is not None):
            return row.kind
    return None if status is None else _BY_STATUS.get(status)


def refusal_kind(error: BaseException) -> Kind | None:
    """Return the kind of an error of a provider's client, as `kind_of` has it."""
    return kind_of(status_of(error), getattr(error, "code", None), str(error))


def status_of(error: BaseException) -> int | None:
    """Return the status of an error of a provider's client.

    None for an error that its stream says, whose own status is that of an answer.
    """
    found: tuple[Any, ...] = (getattr(error, "status_code", None), getattr(error, "code", None))
    return next((status for status in found if isinstance(status, int) and status in _STATUSES), None)
