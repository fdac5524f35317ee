"""Naive Bayes: within a class, columns are independent of each other.

    P(y = k | x)  ~  pi_k prod_j f_kj(x_j)

    class           column              f_kj                                      smoothing
    GaussianNB      number              normal, mean theta_kj, variance var_kj    var_smoothing
    BernoulliNB     yes or no           p^x (1 - p)^(1 - x)                       alpha
    MultinomialNB   counts of words     p^x                                       alpha
    CategoricalNB   category 0, 1, ...  a table of chances                        alpha

Posteriors are worked out in logarithms, so a hundred thousand columns do not underflow. Each class fits from summaries
that add: `partial_fit` is one more merge, and cross-validation (`predict_folds`) costs about one fit. `MixedNB` takes
tables with columns of several kinds, `TextNB` documents.

The independence is seldom true, and the probabilities are then too sure of themselves; the most probable class is often
right all the same (Domingos and Pazzani 1997, Machine Learning 29, 103-130). With few rows it often beats logistic
regression, whose error needs of the order of p rows to settle where naive Bayes needs log p (Ng and Jordan 2002, NIPS
14); `docs/simulations/generative.md` measures both.
"""

from __future__ import annotations

from assay.generative._categorical_nb import CategoricalNB
from assay.generative._count_nb import BernoulliNB, MultinomialNB
from assay.generative._gaussian_nb import GaussianNB

__all__ = ["BernoulliNB", "CategoricalNB", "GaussianNB", "MultinomialNB"]
