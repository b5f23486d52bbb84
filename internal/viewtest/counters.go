package viewtest

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// reading is a point of the counter hits: its process, by resource and start, its time and its value.
type reading struct {
	host, path   string
	started, now time.Duration // since the first record
	value        int64
}

// counters adds processes that count hits. In the last hour they count 42.
func counters(batch pmetric.Metrics) {
	const hour = time.Hour
	for _, r := range []reading{
		{"a", "/", -time.Minute, 0, 5}, {"a", "/", -time.Minute, time.Second, 8}, // 8
		{"a", "/", -30 * time.Second, 0, 3}, {"a", "/", -30 * time.Second, time.Second, 4}, // 4: a replica with the same resource
		{"a", "/", 2 * time.Second, 3 * time.Second, 2},                                                               // 2: a new process
		{"a", "/pay", -time.Minute, 0, 1},                                                                             // 1: other attributes
		{"b", "/", -3 * hour, -2 * hour, 900}, {"b", "/", -3 * hour, 0, 910}, {"b", "/", -3 * hour, time.Second, 911}, // 11: from before
		{"b", "/pay", -90 * time.Minute, 0, 7},       // 7: the first point comes later than others of the table
		{"c", "/", -3 * hour, 0, 1000},               // 0: it is unknown when it counted that
		{"d", "/", 0, 0, 100}, {"d", "/", 0, 1, 103}, // 0, 3: without a start
		{"d", "/", 0, 2, 6}, // 6: begins again without a start
	} {
		rm := batch.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr("service.name", "shop")
		rm.Resource().Attributes().PutStr("host.name", r.host)
		m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName("hits")
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		p := sum.DataPoints().AppendEmpty()
		p.Attributes().PutStr("path", r.path)
		p.SetStartTimestamp(at(r.started))
		if r.host == "d" {
			p.SetStartTimestamp(pcommon.Timestamp(0))
		}
		p.SetTimestamp(at(r.now))
		p.SetIntValue(r.value)
	}
}
