/*
 * How far the step time of two runs may differ by chance, from the steps themselves.
 *
 * The mean: the steps in order are cut into ten parts (batch means). Parts hold what lasts many steps, drift and bursts,
 * so that neighbouring steps need not be independent. Half width of the 99 % interval: t(9) = 3.25 times s / sqrt(10).
 * The median: by the same from the parts' medians, and by the quantiles: between p10 and p50 lie 40 % of the n steps, so
 * the density at the median is about 0.4 / (p50 - p10) on that side, and the half width of the 99 % interval
 * 2.576 x 0.5 / sqrt(n) / density. For normal steps that is 28 % wider than need be. The wider of the two counts.
 * Two runs: the root of the sum of squares.
 */
#include <math.h>

#include "compare.h"

#define BLOCK_FACTOR 3.25              /* Student's t, 9 degrees of freedom, 0.995 */
#define QUANTILE_FACTOR (2.576 * 1.25) /* 0.5 / 0.4 */

static double half_width_of_parts(const int64_t *values_ns)
{
    double mean = 0, squares = 0;
    for (unsigned i = 0; i < TML_BLOCKS; i++)
        mean += (double)values_ns[i] / TML_BLOCKS;
    for (unsigned i = 0; i < TML_BLOCKS; i++)
        squares += ((double)values_ns[i] - mean) * ((double)values_ns[i] - mean);
    return BLOCK_FACTOR * sqrt(squares / (TML_BLOCKS - 1) / TML_BLOCKS);
}

/* `above`: how far the true median may lie above the measured one. */
static double median_half_width(const struct tml_compare_side *side, enum tml_clock clock, bool above)
{
    const struct tml_compare_steps *steps = &side->step[clock];
    int64_t outer_ns = above ? steps->p90_ns : steps->p10_ns;
    if (side->steps < TML_COMPARE_FEWEST_STEPS || outer_ns == TML_NS_NONE || steps->p50_ns == TML_NS_NONE)
        return NAN;
    double width = QUANTILE_FACTOR * fabs((double)outer_ns - (double)steps->p50_ns) / sqrt((double)side->steps);
    double parts = steps->has_blocks ? half_width_of_parts(steps->block_median_ns) : 0;
    return parts > width ? parts : width;
}

double tml_compare_median_noise(const struct tml_compare_side side[2], enum tml_clock clock, bool slower)
{
    return hypot(median_half_width(&side[0], clock, slower), median_half_width(&side[1], clock, !slower));
}

double tml_compare_mean_noise(const struct tml_compare_side side[2], enum tml_clock clock)
{
    for (unsigned i = 0; i < 2; i++)
        if (!side[i].step[clock].has_blocks || side[i].steps < TML_COMPARE_FEWEST_STEPS)
            return NAN;
    return hypot(half_width_of_parts(side[0].step[clock].block_mean_ns),
                 half_width_of_parts(side[1].step[clock].block_mean_ns));
}
