"""Audits of private training: whether the loop that really runs keeps the promise of its plan.

:class:`TrainingAudit` puts canaries into a run, examples that take part by coins that only the audit knows, and watches
the noisy sums that the run releases. It raises an alarm as soon as they show more than the plan allows, at any step,
with a false alarm's chance that is fixed beforehand. At the end it has a lower bound on ε: "Privacy auditing with one
(1) training run" (Steinke, Nasr, Jagielski 2023, arXiv 2305.08846), which :func:`epsilon_lower_bound` computes from
guesses of any kind.

An audit can refute, never prove. With PyTorch, ``evertally.torch.audit_run`` does it in a few lines.
"""

from ._audit import Order, TrainingAudit
from ._bounds import (
    epsilon_lower_bound,
    mu_lower_bound,
    mu_lower_bound_if_independent,
    p_value_of_epsilon,
    p_value_of_mu,
)
from ._report import AuditReport, Factor
from ._shown import Shown

__all__ = [
    "AuditReport",
    "Factor",
    "Order",
    "Shown",
    "TrainingAudit",
    "epsilon_lower_bound",
    "mu_lower_bound",
    "mu_lower_bound_if_independent",
    "p_value_of_epsilon",
    "p_value_of_mu",
]
