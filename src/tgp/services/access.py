"""Who a reader of the HTTP API is, and what they may read: the API server is asked, and every question is counted."""

from tgp.adapters.kube.reviews import SUBJECT_REVIEW, TOKEN_REVIEW, KubeReviews
from tgp.adapters.telemetry.metrics import Metrics
from tgp.core.access.rights import PageRight
from tgp.core.access.user import KubeUser


class AccessService:
    def __init__(self, reviews: KubeReviews, metrics: Metrics) -> None:
        self._reviews = reviews
        self._metrics = metrics

    async def user_of(self, token: str) -> KubeUser | None:
        """None: the token is not valid, or for another audience. Raises ClusterError."""
        self._metrics.access_reviews.labels(TOKEN_REVIEW.kind).inc()
        return await self._reviews.user_of(token)

    async def may(self, user: KubeUser, right: PageRight) -> bool:
        """Raises ClusterError."""
        self._metrics.access_reviews.labels(SUBJECT_REVIEW.kind).inc()
        return await self._reviews.may(user, right)

    def answered(self, status: int) -> None:
        """A request got this status."""
        self._metrics.access_requests.labels(str(status)).inc()
