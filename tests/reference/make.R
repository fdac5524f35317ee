# Reference numbers of R for what summaries and permutation tests print: Rscript tests/reference/make.R, in the root.
# R 4.2.2 with brglm2 0.9 and coin 1.4-2 (Debian 12) wrote r.csv, endometrial.csv and mtcars.csv beside this file.
# endometrial: Heinze and Schemper (2002), Statistics in Medicine 21, 2409-2419, as brglm2 ships it.

suppressPackageStartupMessages({library(MASS); library(brglm2); library(coin)})
folder <- "tests/reference"
out <- data.frame(case = character(), term = character(), figure = character(), value = numeric())
put <- function(case, terms, figure, values)
  out <<- rbind(out, data.frame(case = case, term = terms, figure = figure, value = unname(values)))

# Maximum likelihood: likelihood ratio tests of drop1, profile limits of MASS.
write.csv(mtcars, file.path(folder, "mtcars.csv"), row.names = FALSE)
fit <- glm(vs ~ mpg + am + drat, binomial, mtcars, control = glm.control(epsilon = 1e-14, maxit = 100))
tests <- drop1(fit, test = "LRT")[-1, ]
put("glm", rownames(tests), "lrt", tests$LRT)
put("glm", rownames(tests), "p", tests[["Pr(>Chi)"]])
put("glm", names(coef(fit)), "coef", coef(fit))
put("glm", names(coef(fit)), "wald p", coef(summary(fit))[, 4])
limits <- suppressMessages(confint(profile(fit, maxsteps = 100, del = 0.05)))
put("glm", rownames(limits), "lower", limits[, 1])
put("glm", rownames(limits), "upper", limits[, 2])
put("glm", "", c("aic", "bic"), c(AIC(fit), BIC(fit)))

# Least squares: R counts sigma in AIC and BIC.
for (case in c("lm", "weighted lm")) {
  fit <- lm(mpg ~ wt + hp, mtcars, weights = if (case == "lm") NULL else qsec)
  put(case, "", c("aic", "bic", "loglik"), c(AIC(fit), BIC(fit), as.numeric(logLik(fit))))
}

# Firth: estimates by brglm2; tests and limits as logistf defines them, with the penalised likelihood
# l(b) + log|I(b)|/2 of the whole design maximised over the other coefficients by optim.
write.csv(endometrial, file.path(folder, "endometrial.csv"), row.names = FALSE)
fit <- glm(HG ~ NV + PI + EH, binomial, endometrial, method = "brglmFit", type = "AS_mean",
           control = list(epsilon = 1e-12, maxit = 1000))
put("firth", names(coef(fit)), "coef", coef(fit))
X <- model.matrix(fit)
y <- endometrial$HG
spread <- apply(X, 2, function(x) if (sd(x) > 0) sd(x) else 1)
penalised <- function(b) {
  eta <- drop(X %*% b)
  p <- plogis(eta)
  sum(ifelse(y == 1, plogis(eta, log.p = TRUE), plogis(-eta, log.p = TRUE))) +
    0.5 * as.numeric(determinant(crossprod(X * sqrt(p * (1 - p))))$modulus)
}
profile <- function(j, value) {
  free <- function(t) { b <- coef(fit); b[j] <- value; b[-j] <- t / spread[-j]; b }
  t <- coef(fit)[-j] * spread[-j]
  for (round in 1:5)
    t <- optim(t, function(t) -penalised(free(t)), method = "BFGS", control = list(reltol = 1e-15, maxit = 1000))$par
  penalised(free(t))
}
top <- penalised(coef(fit))
chi2 <- sapply(seq_along(coef(fit)), function(j) 2 * (top - profile(j, 0)))
put("firth", names(coef(fit)), "chi2", chi2)
put("firth", names(coef(fit)), "p", pchisq(chi2, 1, lower.tail = FALSE))
limit <- function(j, sign) {
  fall <- function(v) 2 * (top - profile(j, v)) - qchisq(0.95, 1)
  far <- coef(fit)[j] + sign * 12 * sqrt(vcov(fit)[j, j])
  uniroot(fall, sort(c(coef(fit)[j], far)), tol = 1e-9)$root
}
put("firth", names(coef(fit)), "lower", sapply(seq_along(coef(fit)), limit, sign = -1))
put("firth", names(coef(fit)), "upper", sapply(seq_along(coef(fit)), limit, sign = 1))

# Two-sided permutation tests: coin's exact one counts what lies as far from the centre.
x <- c(1.2, 3.4, 9.8, 2.2)
z <- c(0.3, 0.9, 1.4, 0.2, 1.1, 0.8, 2.9)
both <- data.frame(value = c(x, z), group = factor(rep(c("x", "z"), c(4, 7))))
put("permutation", "", "deviation", as.numeric(pvalue(oneway_test(value ~ group, both, distribution = "exact"))))
sums <- combn(11, 4, function(rows) mean(both$value[rows]) - mean(both$value[-rows]))
seen <- mean(x) - mean(z)
put("permutation", "", "doubled", min(1, 2 * min(mean(sums >= seen - 1e-12), mean(sums <= seen + 1e-12))))

out$value <- sprintf("%.15g", out$value)
write.csv(out, file.path(folder, "r.csv"), row.names = FALSE, quote = FALSE)
