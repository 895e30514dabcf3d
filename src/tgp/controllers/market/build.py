"""The market: one price book, filled by asking every source of offers that a class names."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.market.reconciler import MarketReconciler

ASKED_AT_ONCE = 16  # sources; a slow provider keeps one worker


def build(deps: Deps, stores: Stores) -> list[Controller]:
    observing = deps.settings.observing

    def announce(source: str) -> None:
        if source in stores.market.source_statuses:
            stores.sources.send(source)
        else:  # no class buys there any more
            stores.sources.withdraw(source)

    reconciler = MarketReconciler(
        stores.market,
        classes=stores.all_classes,
        clouds=deps.clouds,
        secret_reader=deps.secrets,
        clock=deps.clock,
        entropy=deps.entropy,
        journal=deps.journal,
        announce=announce,
        requests=stores.requests,
        nodes=stores.nodes,
    )
    return [
        Controller(
            "market",
            reconciler,
            sources=(
                WatchSource(stores.classes, reconciler.of_class),
                WatchSource(stores.implicit_class.store, reconciler.of_class),
                WatchSource(deps.secrets.changes.store, reconciler.of_secret),
                *(() if observing else (WatchSource(stores.requests, reconciler.of_request),)),
            ),
            also_reads=(stores.nodes,),
            workers=ASKED_AT_ONCE,
            read_only=True,
        )
    ]
