package main

import (
	"strings"
	"testing"
)

// The shop's telemetry is in its tables, once.
func TestRun(t *testing.T) {
	for _, name := range []string{"OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		t.Setenv(name, "") // and back, when the test has ended
	}
	var out strings.Builder
	if err := run(t.Context(), t.TempDir(), 6, &out); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"  shop, order, Server, Unset, , {": 6, "  shop, payment, Client, ": 6, ", Error, card declined, {": 2,
		"  shop, shop.orders, sum, 6, , \n": 1, "  shop, shop.order.amount, histogram, , 4, [": 1,
		"  shop, WARN, card declined, {\"order.id\":3}\n": 1, "  shop, INFO, paid, {": 4,
	} {
		if got := strings.Count(out.String(), line); got != want {
			t.Errorf("got %d lines with %q, want %d", got, line, want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
