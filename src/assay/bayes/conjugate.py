"""Conjugate models: prior times likelihood is a posterior of the same family, in closed form.

    model                  parameter          posterior                                  next observation
    BetaBinomial           chance             Beta(a + k, b + n - k)                     beta-binomial
    DirichletMultinomial   probabilities      Dirichlet(alpha + counts)                  Dirichlet-multinomial
    GammaPoisson           rate               Gamma(shape + sum x, rate + sum e)         negative binomial
    NormalMean             mean               normal, precisions add                     normal
    NormalGamma            mean, variance     normal-gamma                               Student's t

One object is prior and posterior; `update` returns the next one, so updates chain, and `merge` joins posteriors
that started from one prior. Each gives mean, mode (MAP), var, credible intervals (equal-tailed or highest-density),
draws, the predictive distribution, the marginal likelihood and Bayes factors, and a picture of prior and posterior.

Parameters may be arrays, one entry per group: a million groups are updated in a few milliseconds, and their limits
found at about a microsecond each. Data come as one column, one column per group, or one column with
`groups=` labels; counts and moments as numbers, arrays or Series (whose index names the groups). Weights count as
repetition. Everything is summed in logarithms that keep their digits at any count (see `_stable`).

Raiffa and Schlaifer (1961), Applied Statistical Decision Theory; Gelman et al. (2013), Bayesian Data Analysis, chapters
2 and 3; Kass and Raftery (1995), JASA 90, 773-795 (Bayes factors).
"""

from __future__ import annotations

from assay.bayes._beta import BetaBinomial
from assay.bayes._dirichlet import DirichletMultinomial
from assay.bayes._gamma import GammaPoisson
from assay.bayes._normal import NormalGamma, NormalMean
from assay.bayes.conjugate_model import BayesFactor

__all__ = ["BayesFactor", "BetaBinomial", "DirichletMultinomial", "GammaPoisson", "NormalGamma", "NormalMean"]
