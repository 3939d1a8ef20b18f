"""Audits of private training: does the loop that actually runs keep the guarantee of its plan?

:class:`TrainingAudit` adds canaries to a run: examples whose participation is decided by coins that only the audit
knows. It watches the noisy sums that the run releases, and raises an alarm as soon as they reveal more than the plan
allows, at any step, with a fixed probability of a false alarm. At the end it has a lower bound on ε: "Privacy auditing
with one (1) training run" (Steinke, Nasr, Jagielski 2023, arXiv 2305.08846), which :func:`epsilon_lower_bound` computes
from guesses of any kind.

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
