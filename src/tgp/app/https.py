"""The HTTPS side of the operator: its certificate, and the pages behind the gate."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tgp.adapters.kube.reviews import KubeReviews
from tgp.adapters.telemetry.metrics import Metrics
from tgp.app.deps import Environment
from tgp.app.settings import Settings
from tgp.controllers.access.certificate_keeper import CertificateKeeper
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.pools.build import Pools
from tgp.interfaces.web.api_pages import api_pages
from tgp.interfaces.web.gate import Gate
from tgp.interfaces.web.offers_page import OffersPage
from tgp.interfaces.web.openapi import OpenApiPage
from tgp.interfaces.web.pages import MetricsOnHttps, WebPage
from tgp.ports.http import Http
from tgp.services.access import AccessService

if TYPE_CHECKING:
    from tgp.services.operator_view import OperatorView


@dataclass(frozen=True, slots=True)
class Https:
    keeper: CertificateKeeper
    gate: Gate


def make_https(
    settings: Settings,
    environment: Environment,
    http: Http,
    deps: Deps,
    stores: Stores,
    *,
    pools: Pools,
    metrics: Metrics,
    leads: Callable[[], bool],
) -> Https:
    keeper = CertificateKeeper(
        deps.cluster,
        deps.journal,
        deps.clock,
        deps.entropy,
        deps.settings.namespace,
        secret=settings.https_secret,
        serve=environment.serve,
        may_write=lambda: not settings.observe and leads(),
        read_only=settings.observe,
        learn=deps.learn,
        look_every=environment.certificate_read_every,
    )
    metrics.certificate_expiry.set_function(
        lambda: keeper.not_after.timestamp() if keeper.not_after is not None else 0.0
    )

    @cache
    def view() -> "OperatorView":
        """Made for the first page that needs it: it loads the planner, and most operators are only scraped."""
        from tgp.adapters.kube.connect import Connection
        from tgp.services.operator_view import OperatorReads, OperatorView

        connection = Connection(http, deps.clock, deps.entropy, "", "", deps.settings.namespace)
        spend_log = SpendLog(deps.cluster, deps.settings.namespace)
        return OperatorView(stores, OperatorReads(connection, stores), pools.observer, spend_log, deps.compute)

    every: list[WebPage] = [
        MetricsOnHttps(metrics.page),
        OffersPage(lambda: stores.market.book, deps.clock.now, deps.compute),
        *api_pages(view),
    ]
    pages = {page.about.path: page for page in every}
    pages[OpenApiPage.about.path] = OpenApiPage(pages)
    return Https(keeper, Gate(AccessService(KubeReviews(http), metrics), pages, leads=leads))
