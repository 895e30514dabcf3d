"""A real Kubernetes control plane on loopback: `with ControlPlane() as plane: … plane.kubeconfig`."""

from tools.controlplane.component import ControlPlaneFailed
from tools.controlplane.plane import EVERYTHING, ControlPlane, Wanted

__all__ = ["EVERYTHING", "ControlPlane", "ControlPlaneFailed", "Wanted"]
