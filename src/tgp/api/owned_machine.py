"""Machines you own, switched on and off by HTTP calls: the settings of the webhook provider."""

from dataclasses import replace
from typing import Annotated

from tgp.api import cel
from tgp.api.common import POSITIVE_QUANTITY, SecretKeyRef
from tgp.api.field import ApiStruct, Field


def _endpoint(doc: str) -> Field:
    return Field(
        doc=doc + " Loopback, link-local, metadata and the API server's own addresses are never called.",
        min_length=1,
        max_length=1024,
        rules=(cel.URL,),
    )


def _span(doc: str) -> Field:
    return Field(doc=doc, max_length=32, rules=(cel.DURATION,))


class CronWindow(ApiStruct, frozen=True, kw_only=True):
    """A stretch of time that begins at each tick of a schedule."""

    schedule: Annotated[
        str,
        Field(
            doc='When it begins, as five cron fields or @daily and the like: "0 8 * * 1-5" is 8:00 on working days.',
            min_length=1,
            max_length=128,
            rules=(cel.CRON,),
        ),
    ]
    duration: Annotated[
        str,
        Field(doc="How long it lasts, such as 10h.", max_length=32, rules=(cel.DURATION, cel.SPAN_ABOVE_ZERO)),
    ]
    time_zone: Annotated[
        str | None,
        Field(
            doc="IANA time zone of the schedule, such as Europe/Berlin. Default UTC.",
            max_length=64,
            rules=(cel.TIME_ZONE,),
        ),
    ] = None


class PowerMachine(ApiStruct, frozen=True, kw_only=True):
    """One machine that is already a member of the cluster."""

    object_rules = (
        cel.not_both(
            "watts", "pricePerHour", "set watts or pricePerHour, not both: watts are priced by electricityPricePerKWh"
        ),
    )
    name: Annotated[str, Field(doc="The Node's name.", min_length=1, max_length=63, rules=(cel.DNS_SUBDOMAIN,))]
    gpu_count: Annotated[int, Field(doc="GPUs in the machine.", minimum=1, maximum=1024)]
    scale_up_endpoint: Annotated[str, _endpoint("Called to switch the machine on.")]
    scale_down_endpoint: Annotated[str, _endpoint("Called to switch the machine off, after it was drained.")]
    status_endpoint: Annotated[
        str | None, _endpoint("Asked with GET whether the machine is on. Default: the Node's Ready condition decides.")
    ] = None
    method: Annotated[
        str, Field(doc="The HTTP method of the calls that switch. Default POST.", enum=("POST", "PUT", "PATCH", "GET"))
    ] = "POST"
    headers_secret_ref: Annotated[
        SecretKeyRef | None,
        Field(doc="Headers to send, one `Name: value` per line; for a token that the receiver asks for."),
    ] = None
    signing_secret_ref: Annotated[
        SecretKeyRef | None, Field(doc="A secret to sign calls with, as Standard Webhooks does (HMAC).")
    ] = None
    gpu_type: Annotated[
        str | None,
        Field(doc="The GPU model. Default: learned from the Node.", min_length=1, max_length=63, rules=(cel.GPU_NAME,)),
    ] = None
    cpu: Annotated[
        int | str | None, replace(POSITIVE_QUANTITY, doc="CPUs, a quantity. Default: learned from the Node.")
    ] = None
    memory: Annotated[
        int | str | None, replace(POSITIVE_QUANTITY, doc="Memory, a quantity. Default: learned from the Node.")
    ] = None
    watts: Annotated[
        int | None,
        Field(doc="Watts under load. With electricityPricePerKWh it prices the machine.", minimum=1, maximum=100_000),
    ] = None
    price_per_hour: Annotated[
        str | None, Field(doc="Dollars per hour, instead of watts.", max_length=16, rules=(cel.PRICE,))
    ] = None
    min_on_time: Annotated[str, _span("Stays on at least this long. Default 10m.")] = "10m"
    min_off_time: Annotated[str, _span("Stays off at least this long. Default 1m.")] = "1m"
    boot_timeout: Annotated[
        str,
        Field(
            doc="Must be Ready within this time after being switched on. Default 10m.",
            max_length=32,
            rules=(cel.DURATION, cel.SPAN_ABOVE_ZERO),
        ),
    ] = "10m"
    keep_on: Annotated[
        CronWindow | None, Field(doc="Times in which the machine stays on even when no pod needs it.")
    ] = None
