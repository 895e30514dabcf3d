"""The turns of requests: who takes them, with which tools, and what wakes them."""

from collections.abc import Awaitable, Callable

from tgp.adapters.kube.controller import Controller, Source
from tgp.api.request import Attempt
from tgp.api.resource import GPU_REQUEST
from tgp.app.purchase_kit import Kit, Shelves
from tgp.controllers.accounts import Accounts
from tgp.controllers.bench import Bench
from tgp.controllers.consistency import Consistency
from tgp.controllers.giving_back import GivingBack
from tgp.controllers.last_look import LastLook
from tgp.controllers.ledger import Ledger
from tgp.controllers.ordering import Ordering
from tgp.controllers.readopting import Readopting
from tgp.controllers.request_sight import Lookout, Views
from tgp.controllers.request_story import Storyteller
from tgp.controllers.request_wakes import RequestWakes
from tgp.controllers.requests import RequestReconciler
from tgp.controllers.reserving import Reserving
from tgp.controllers.rosters import Rosters
from tgp.controllers.second_look import SecondLook
from tgp.controllers.spending import Books
from tgp.controllers.till_desk import TillDesk
from tgp.controllers.verdicts import Scribe
from tgp.core.model.till import Till
from tgp.core.rules.lifecycle_news import UNTOLD
from tgp.core.rules.lifecycle_words import OWNED

FEWEST_WORKERS = 16  # a turn may wait half a minute for a provider's answer


class RequestTurns:
    def __init__(
        self,
        shelves: Shelves,
        kit: Kit,
        *,
        rosters: Rosters,
        accounts: Accounts,
        ledger: Ledger,
        consistency: Consistency,
        cluster_id: Callable[[], str],
        hold: Callable[[str, Attempt], Awaitable[None]],
        list_pods: Callable[[], Awaitable[None]],
        till: Callable[[str], Till | None],
    ) -> None:
        self._shelves = shelves
        self._kit = kit
        self._wakes = RequestWakes(shelves.requests, rosters, accounts)
        views = self._views()
        lookout = self._lookout(views, rosters, accounts, ledger, consistency)
        bench = Bench(kit.market, accounts)
        scribe = Scribe(GPU_REQUEST, OWNED, kit.cluster, kit.journal, kit.clock, untold=UNTOLD)
        story = Storyteller(scribe, bench, kit.journal, kit.clock)
        desk = TillDesk(kit.clouds, accounts, kit.vault, kit.gate, kit.boot)
        self._reconciler = RequestReconciler(
            views,
            lookout,
            reserving=Reserving(
                lookout,
                cluster_id=cluster_id,
                rosters=rosters,
                accounts=accounts,
                ledger=ledger,
                story=story,
                journal=kit.journal,
                clock=kit.clock,
            ),
            ordering=Ordering(
                views.requests,
                lookout,
                desk=desk,
                hold=hold,
                last_look=LastLook(views, kit.cluster, home=kit.policy.namespace),
                cluster=kit.cluster,
                rosters=rosters,
                accounts=accounts,
                bench=bench,
                story=story,
                journal=kit.journal,
                clock=kit.clock,
            ),
            readopting=Readopting(
                lookout,
                till=till,
                accounts=accounts,
                rosters=rosters,
                story=story,
                journal=kit.journal,
                clock=kit.clock,
            ),
            giving_back=GivingBack(
                views.nodes,
                kit.cluster,
                second_look=SecondLook(lookout, views.nodes, kit.cluster, list_pods),
                desk=desk,
                books=Books(kit.cluster, kit.policy.namespace),
                rosters=rosters,
                accounts=accounts,
                bench=bench,
                story=story,
                journal=kit.journal,
            ),
            story=story,
            cluster=kit.cluster,
            rosters=rosters,
            accounts=accounts,
            ledger=ledger,
            clock=kit.clock,
        )

    def start_over(self) -> None:
        self._reconciler.start_over()

    def controller(self) -> Controller:
        kit, shelves, wakes = self._kit, self._shelves, self._wakes
        return Controller(
            "requests",
            self._reconciler,
            sources=(
                Source(shelves.requests),
                Source(shelves.requests, wakes.after_a_release),
                Source(shelves.nodes, wakes.of_node),
                Source(shelves.pods, wakes.of_pod),
                Source(kit.classes, wakes.of_class),
                Source(shelves.implicit.store, wakes.of_class),
                Source(shelves.tills.store, wakes.of_till),
                Source(shelves.accounts.store, wakes.of_account),
                Source(shelves.in_mesh.store),
                Source(kit.sources.store, wakes.whoever_waits),
                Source(shelves.daemon_sets, wakes.whoever_waits),
                Source(kit.namespaces, wakes.whoever_waits),
            ),
            also_reads=(kit.pools, shelves.budgets),
            writes=(shelves.requests,),
            workers=max(kit.workers, FEWEST_WORKERS),
        )

    def _views(self) -> Views:
        kit, shelves = self._kit, self._shelves
        return Views(
            shelves.requests,
            kit.every_class,
            kit.pools,
            shelves.nodes,
            shelves.pods,
            shelves.daemon_sets,
            shelves.budgets,
            kit.namespaces,
        )

    def _lookout(
        self, views: Views, rosters: Rosters, accounts: Accounts, ledger: Ledger, consistency: Consistency
    ) -> Lookout:
        kit = self._kit
        return Lookout(
            views,
            kit.policy,
            market=kit.market,
            rosters=rosters,
            accounts=accounts,
            ledger=ledger,
            consistency=consistency,
            clouds=kit.clouds,
            gate=kit.gate,
            clock=kit.clock,
            stand=kit.stand,
            refuses=kit.boot.refuses,
        )
