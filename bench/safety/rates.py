"""How often each thing breaks in the safety bench, and why so often. Checked in: figures mean something beside these.

The fault rates are far higher than in any cluster, so that each hour tests something; but a single fault must stay an
exception, or the cost of the faults themselves (a machine that never joins is paid for until its deadline) would drown
what the operator does about them.
"""

from dataclasses import dataclass
from datetime import timedelta

from tgp.core.model.provider_facts import Rate as Pace
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.fast.views import ViewFaults
from tgp.sim.fast.world import Aims
from tgp.sim.faults import Fault, Faults
from tgp.sim.node_bootstrap import NodeFault
from tgp.sim.router import Latency


@dataclass(frozen=True, slots=True)
class Rate:
    rate: float
    why: str


# Chances per call, stream or watch (of which each lasts two minutes); of processes counts per process and hour.
NETWORK: dict[Fault, Rate] = {
    Fault.REFUSED: Rate(0.005, "a rolling restart behind a load balancer; the easy case: nothing happened"),
    Fault.LOST: Rate(0.005, "nothing happened, and the caller cannot know: every such order has to be resolved"),
    Fault.LOST_ANSWER: Rate(0.01, "the case that buys twice: it happened, and the answer was lost"),
    Fault.SLOW: Rate(0.005, "the same, and the answer arrives after the caller has stopped waiting"),
    Fault.PROXY: Rate(0.005, "a gateway's words for nothing happened …"),
    Fault.PROXY_AFTER: Rate(0.005, "… and the very same words after it did"),
    Fault.BUSY: Rate(0.01, "providers allow a call or two a second"),
    Fault.ERROR: Rate(0.005, "5xx before anything happened"),
    Fault.ERROR_AFTER: Rate(0.005, "5xx after it happened"),
    Fault.SILENT: Rate(0.03, "half-open watches: an old view for two minutes"),
    Fault.CUT: Rate(0.07, "a watch is cut about once an hour behind most proxies"),
    Fault.TRUNCATED: Rate(0.03, "the same, in the middle of a line"),
    Fault.LAGGING: Rate(0.05, "an API server under load shows the world up to 20 s late"),
    Fault.API_CONFLICT: Rate(0.02, "another client wrote the object in between"),
    Fault.API_BUSY: Rate(0.005, "API priority and fairness sends clients away"),
    Fault.API_ERROR: Rate(0.005, "etcd's leader changes: nothing was written"),
    Fault.API_ERROR_AFTER: Rate(0.005, "the same, and it was written"),
    Fault.API_TIMEOUT_AFTER: Rate(0.005, "504, and it was written"),
    Fault.WATCH_LAG: Rate(0.05, "the watch cache is behind"),
    Fault.WATCH_COALESCE: Rate(0.05, "changes between two looks are one change"),
    Fault.WATCH_GONE: Rate(0.07, "410: the history was compacted; everything is listed again"),
    Fault.WATCH_DROP: Rate(0.07, "the server ends a watch when it likes"),
    Fault.STALE_LIST: Rate(0.02, "a list from a cache that is behind"),
    Fault.CRASH: Rate(0.5, "a node drain, an out-of-memory kill: a replica of two every hour"),
    Fault.PAUSE: Rate(0.5, "a suspended or throttled machine, up to a minute and a half: beyond every lease"),
    Fault.PARTITION: Rate(0.5, "up to four minutes without the API server, or without a provider"),
    Fault.CLOCK: Rate(0.1, "a wall clock that jumps or stands: moments may be read from the API server only"),
}

# Of the lean world, where a watch is no stream of calls: the same per hour and kind that changes, with shipped watches.
VIEWS = ViewFaults(
    silent=0.9,  # half-open: an old view until it is noticed, three quarters of a minute at most
    broken=5.0,  # cut, truncated or ended: the next watch goes on where this one was
    gone=2.0,  # 410: everything is listed again
    late=3.0,  # up to 20 s behind, for two minutes
    coalesced=1.5,  # the same, and of several changes only the last is delivered
)
# Of the lean world, chances per call that changes something: at the API server, and ten times as often at the provider.
# Faults at random moments hardly ever meet the one call that pays; these do.
AIMS = Aims(
    crash_before=0.0005,  # the power goes as the call is about to leave
    crash_after=0.0005,  # it happened, and the caller has crashed
    pause=0.001,  # three quarters of a minute before it leaves: another leads by then
    freeze=0.001,  # from here on an old view, for as long
)
AIMS_AT_PROVIDER = Aims(crash_before=0.005, crash_after=0.01, pause=0.01, freeze=0.01)
# Of the lean world, seconds: a provider takes its time over an order, so that crashes and pauses meet orders on their
# way; and lists machines as late as it promises to at most (10 s), not twice as soon. One order in fifty arrives when
# its caller's connection was closed long before: within the half minute that a call may take, which is how long an
# unknown outcome has to wait.
AT_THE_COUNTER = Latency(0.05, 6.0, held_up=0.02, latest=28.0)
LISTED_AFTER = (0.0, 9.5)
# Of the lean world: the provider takes one order every 12 s, as the strictest one known does, so that orders wait in
# line while users think better of them.
PACE = {"launch": Pace(calls=1, per=timedelta(seconds=12))}

# Chances per call of the verb that each befalls.
PROVIDER: dict[CloudFault, Rate] = {
    CloudFault.HANG_UP: Rate(0.005, "the connection drops before anything happened"),
    CloudFault.HANG_UP_AFTER: Rate(0.02, "an order in fifty is made while its buyer hears nothing"),
    CloudFault.ERROR_AFTER: Rate(0.02, "the same, with a 5xx"),
    CloudFault.ERROR_WITH_ID: Rate(0.01, "an error that names the machine it made: two providers do this"),
    CloudFault.BUSY_TEXT: Rate(0.005, "429 without a word of when to come back"),
    CloudFault.HTML: Rate(0.005, "a page of a bot shield, with status 200"),
    CloudFault.EMPTY_BODY: Rate(0.005, "200 and nothing: proves nothing"),
    CloudFault.LIST_NOTHING: Rate(0.03, "an empty list, though machines are there; so often that two come in a row"),
    CloudFault.LIST_PARTIAL: Rate(0.005, "the second page of a list fails"),
    CloudFault.LIST_LAGS: Rate(0.002, "a launch is hidden for four minutes, far beyond the provider's known lag"),
    CloudFault.SOLD_OUT: Rate(0.03, "sold between looking and buying"),
    CloudFault.MADE_TWICE: Rate(0.003, "two machines for one order: the collector's daily bread"),
    CloudFault.OVERBILLED: Rate(0.002, "billed above the price that was quoted: terminated at once"),
    CloudFault.STUCK: Rate(
        0.001, "never starts; each one is paid for until its deadline, which is the provider's waste"
    ),
    CloudFault.OUTBID: Rate(0.005, "another tenant bids more: it stops, stays listed, and its disk costs"),
    CloudFault.OFFLINE: Rate(0.005, "a host is lost and its machine listed on"),
    CloudFault.VANISHED: Rate(0.005, "a machine disappears from lists without a word"),
    CloudFault.DELETE_UNKNOWN: Rate(0.02, "404 for a machine that is there"),
    CloudFault.DELETE_IGNORED: Rate(0.02, "an end that is accepted and never comes: it has to be asked for again"),
}

# Counts per hour of the provider; and chances per order while it lasts: faults of one cause come together.
OVERRUN = Rate(0.5, "a bad quarter of an hour: orders are sent away, and of those that come back half hear nothing")
OVERRUN_FOR = 900.0  # seconds
WHILE_OVERRUN: dict[CloudFault, float] = {CloudFault.BUSY: 0.5, CloudFault.HANG_UP_AFTER: 0.5}
BUSY_FOR = 90.0  # seconds to stay away: longer than an uncertainty lasts, so that the start of the measurement is clear

# Counts per hour of the provider: what it says of machines that is not so.
DENIES = Rate(0.1, "an account that answers 200 [] and 404 for minutes, while the machines run: seen at two providers")
DENIES_FOR = (30.0, 540.0)  # seconds
SAYS_HIGHER_PRICE = Rate(0.2, "prices in cents where they were in dollars: an API that changes its units for a moment")
SAYS_STOPPED = Rate(0.2, "every machine stopped: a console's cache that lost its agents")
SAYS_FOR = (5.0, 90.0)  # seconds in which also what is asked by id is untrue; every second time a single list is
HIGHER_PRICE_TIMES = 100
# A person looks after a denial, and says that the provider can be believed: otherwise nothing is bought for an hour.
FORGIVEN_AFTER = 420.0  # seconds: longer than what was denied may be on the bill

# Counts per hour of the power API of machines you own; it has the faults of providers besides.
POWER_LIES = Rate(0.2, "a status that is a cache of its own: every machine off, or broken, whatever it is")
POWER_LIES_FOR = 900.0  # seconds at most
POWER_SILENT = Rate(0.1, "the box that switches the others is off itself")
POWER_SILENT_FOR = 3600.0  # seconds at most
SWITCHED_BY_HAND = Rate(0.2, "a person presses the button of a machine: it is on without a request, or off under pods")
# What providers of machines alone do: of a machine you own there is one, and it costs what it costs.
NOT_OF_POWER = frozenset({CloudFault.MADE_TWICE, CloudFault.OVERBILLED, CloudFault.OUTBID, CloudFault.SOLD_OUT})

# Chances per machine that comes to run.
KUBELETS: dict[NodeFault, Rate] = {
    NodeFault.NEVER_REGISTERS: Rate(0.001, "paid for until its deadline, like a machine that is stuck"),
    NodeFault.WRONG_PROVIDER_ID: Rate(0.001, "a Node that must not be adopted"),
    NodeFault.NODE_DELETED: Rate(0.005, "a user deletes the Node of a machine in use"),
    NodeFault.FALLS_SILENT: Rate(0.003, "a kubelet dies while its machine runs on"),
}

# Counts per hour of the whole cluster.
STRIPPED = Rate(
    0.1, "a user removes the finalizer of a request to force its deletion: only the collector knows its machine"
)
ENDED_AT_THE_CONSOLE = Rate(0.1, "a user terminates a machine in the provider's own console")
HELD = Rate(0.3, "a user runs tgp hold, and releases it after a minute: queued orders must not be sent")
HELD_FOR = 60.0  # seconds
WIPED = Rate(0.05, "a tool recreates a request and loses its status")
WIPED_ALL = Rate(0.04, "a tool recreates every request at once and loses all statuses: a restore, a bad pipeline")

# Chances per request.
WIPED_EARLY = Rate(0.02, "the tool that created it recreates it at once: while its machine is ordered, and in no list")
WIPED_WITHIN = (0.2, 15.0)  # seconds after it was made

NETWORK_FAULTS = Faults({fault: row.rate for fault, row in NETWORK.items()}, shuffled=True)
