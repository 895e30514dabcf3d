"""The price book as metrics, computed at each scrape: offers and their age, failures, the best price per GPU model."""

from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tgp.adapters.telemetry.metrics import Metrics
from tgp.core.model.price_book import PriceBook
from tgp.core.model.prices import MICRO


class BookCollector(Collector):
    """Sources of one provider are summed: labels have few values, whatever users configure."""

    def __init__(self, book: Callable[[], PriceBook], now: Callable[[], datetime]) -> None:
        self._book = book
        self._now = now

    def collect(self) -> Iterator[Metric]:
        book, now = self._book(), self._now()
        offers = GaugeMetricFamily("tgp_offers", "Offers in the price book", labels=["provider"])
        age = GaugeMetricFamily("tgp_offers_age_seconds", "Age of the oldest listing in use", labels=["provider"])
        failing = GaugeMetricFamily("tgp_sources_failing", "Sources whose last listing failed", labels=["provider"])
        dropped = GaugeMetricFamily(
            "tgp_offers_dropped", "Offers left out of the last listing", labels=["provider", "reason"]
        )
        counts: dict[str, list[float]] = {}
        ages: dict[str, float] = {}  # without an entry: never listed (zero would look fresh)
        left_out: dict[tuple[str, str], int] = {}
        for state in book.sources:
            provider = state.source.partition("/")[0].partition("#")[0]
            row = counts.setdefault(provider, [0.0, 0.0])
            row[0] += state.offers
            row[1] += bool(state.why)
            if (known := state.age(now)) is not None:
                ages[provider] = max(ages.get(provider, 0.0), known.total_seconds())
            for reason, count in state.dropped.items():
                left_out[provider, reason] = left_out.get((provider, reason), 0) + count
        for provider, (number, troubled) in sorted(counts.items()):
            offers.add_metric([provider], number)
            failing.add_metric([provider], troubled)
        for provider, seconds in sorted(ages.items()):
            age.add_metric([provider], seconds)
        for (provider, reason), count in sorted(left_out.items()):
            dropped.add_metric([provider, reason], count)
        yield from (offers, age, failing, dropped, self._best(book))
        yield CounterMetricFamily("tgp_price_book_changes", "Times the price book changed", value=book.number)

    @staticmethod
    def _best(book: PriceBook) -> Metric:
        best: dict[tuple[str, str], int] = {}
        for series, price in book.cheapest().items():
            kind = series.gpu, "spot" if series.spot else "on-demand"
            best[kind] = min(price, best.get(kind, price))
        family = GaugeMetricFamily(
            "tgp_best_price_dollars", "Lowest price per GPU-hour of a model on sale now", labels=["gpu", "kind"]
        )
        for labels, price in sorted(best.items()):
            family.add_metric(labels, price / MICRO)
        return family


class PrometheusCloudMetrics:
    """Calls to providers, by verb and outcome. Implements `CloudMetrics` of the middleware."""

    def __init__(self, metrics: Metrics) -> None:
        self._calls = metrics.cloud_calls
        self._waits = metrics.cloud_waits

    def called(self, provider: str, verb: str, outcome: str, seconds: float) -> None:
        self._calls.labels(provider, verb, outcome).observe(seconds)

    def waited(self, provider: str, verb: str, seconds: float, *, refused: bool) -> None:
        self._waits.labels(provider, verb, str(refused).lower()).observe(seconds)
