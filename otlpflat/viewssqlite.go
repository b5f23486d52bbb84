package otlpflat

import (
	"slices"
	"strings"
)

// bucketsOfSQLite is buckets for SQLite, whose arrays are JSON. A literal beyond a double is infinite there.
func (v *views) bucketsOfSQLite(table string) {
	point := v.renamed(append(slices.Clone(pointColumns), "MetricType", "AggregationTemporality"))
	const exponential = ` WHERE t."MetricType" = 'exponential_histogram'`
	side := func(side, lower, upper string) string {
		// The width of a bucket, as the exponent of two, and the exponents of its bounds.
		width := `power(2.0, max(-900, min(900, -t."Scale")))`
		bound := func(number string) string {
			exponent := `(t."` + side + `Offset" + ` + number + ") * " + width
			return "CASE WHEN " + exponent + " >= 1024 THEN 9e999 WHEN " + exponent + " < -1074 THEN 0.0 ELSE power(2.0, " + exponent + ") END"
		}
		replace := strings.NewReplacer("$above", bound("x.key + 1"), "$below", bound("x.key"))
		return "SELECT " + point + ", " + replace.Replace(lower) + " AS LowerBound,\n  " + replace.Replace(upper) + " AS UpperBound, x.value AS BucketCount\nFROM " +
			table + ", " + v.documents(side+"BucketCounts") + exponential
	}
	v.create("metrics_buckets", strings.Join([]string{
		"SELECT " + point + `, CASE WHEN x.key = 0 THEN -9e999 ELSE CAST(t."ExplicitBounds" ->> (x.key - 1) AS REAL) END AS LowerBound,
  CASE WHEN x.key = json_array_length(t."BucketCounts") - 1 THEN 9e999 ELSE CAST(t."ExplicitBounds" ->> x.key AS REAL) END AS UpperBound, x.value AS BucketCount
FROM ` + table + ", " + v.documents("BucketCounts") + ` WHERE t."MetricType" = 'histogram'`,
		side("Positive", "$below", "$above"),
		side("Negative", "0 - $above", "0 - $below"),
		"SELECT " + point + `, 0 - t."ZeroThreshold" AS LowerBound, t."ZeroThreshold" AS UpperBound, t."ZeroCount" AS BucketCount
FROM ` + table + exponential + ` AND t."ZeroCount" > 0`,
	}, "\nUNION ALL\n"))
}
