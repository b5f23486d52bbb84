package quickstart

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// sinkIDs are the sinks of the source, tableIDs their tables, in the same order.
var (
	sinkIDs  = []string{"orders", "audit"}
	tableIDs = []string{"in.c-shop.orders", "in.c-shop.audit"}
)

// source has all seven kinds of columns in two sinks. The columns of the orders sink have types, and it refuses an event without an
// order. The audit sink accepts every event.
func source(secret string) forebay.Source {
	return forebay.Source{
		ID:     "shop",
		Secret: secret,
		Settings: forebay.Settings{
			// Small loads, so that a short run shows all levels at work.
			Upload: trigger.Conditions{Interval: time.Second, Count: 500},
			Import: trigger.Conditions{Interval: 30 * time.Second, Count: 1_000},
		},
		Sinks: []forebay.Sink{
			{ID: sinkIDs[0], Table: forebay.Table{ID: tableIDs[0], Columns: mapping.Columns{
				mapping.UUID("id", mapping.DataType(datatype.UUID)),
				mapping.Datetime("received_at", mapping.DataType(datatype.Timestamp)),
				mapping.Path("delivery", "delivery.id", mapping.DataType(datatype.String), mapping.Required()),
				mapping.Path("number", "order.number", mapping.DataType(datatype.String), mapping.Required()),
				mapping.Path("total", "order.total", mapping.DataType(datatype.Decimal(10, 2))),
				mapping.Path("country", "customer.country", mapping.DataType(datatype.String), mapping.Default("unknown")),
				mapping.Path("note", "order.note", mapping.DataType(datatype.String)),
				mapping.Template("label", `Header("X-Shop", "main") + "/" + Body("type")`, mapping.DataType(datatype.String)),
			}}},
			{ID: sinkIDs[1], Table: forebay.Table{ID: tableIDs[1], Columns: mapping.Columns{
				mapping.Datetime("received_at"),
				mapping.Path("delivery", "delivery.id", mapping.RawString()),
				mapping.IP("ip"),
				mapping.Headers("headers"),
				mapping.Body("body"),
			}}},
		},
	}
}

// maxEvents keeps an event number within the seven digits of a delivery id.
const maxEvents = 9_999_999

// delivery is one attempt to send one event. Its id is in the body, as webhook senders do it, and from there in every
// row, so that rows can be compared with responses, attempt by attempt.
type delivery struct{ event, attempt uint32 }

// id has a prefix that is new with every run, since a directory may hold the rows of earlier ones.
func (d delivery) id(run string) string { return fmt.Sprintf("%s-%07d-%d", run, d.event, d.attempt) }

// parseDelivery reports false for rows of other runs.
func parseDelivery(run, id string) (d delivery, ok bool) {
	_, err := fmt.Sscanf(id, run+"-%d-%d", &d.event, &d.attempt)
	return d, err == nil
}

func orderNumber(event uint32) string { return fmt.Sprintf("SO-%07d", event) }

// newBody makes the body of one attempt. Attempts of one event differ in the delivery alone.
func newBody(cfg config, run string, d delivery) ([]byte, error) {
	rng := rand.New(rand.NewPCG(cfg.seed, uint64(d.event)))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	type object map[string]any
	customer := fmt.Sprintf("c-%04d", rng.IntN(5000))
	event := object{
		"type":      pick("order.created", "order.paid", "order.paid", "order.shipped"),
		"createdAt": time.Now().UTC().Truncate(time.Millisecond),
		"delivery":  object{"id": d.id(run), "attempt": d.attempt},
		"customer":  object{"id": customer, "email": customer + "@example.com"},
	}
	if country := pick("CZ", "DE", "FR", "US", ""); country != "" { // without one the column has a default
		event["customer"].(object)["country"] = country
	}
	var items []object
	for range 1 + rng.IntN(3) {
		items = append(items, object{"sku": fmt.Sprintf("SKU-%05d", rng.IntN(20_000)), "quantity": 1 + rng.IntN(4)})
	}
	if rng.IntN(100) >= cfg.bad {
		event["order"] = object{
			"number": orderNumber(d.event), "items": items, "currency": pick("CZK", "EUR", "USD"),
			"total": json.Number(fmt.Sprintf("%d.%02d", rng.IntN(500), rng.IntN(100))),
		}
		if rng.IntN(2) > 0 { // else NULL
			event["order"].(object)["note"] = pick("", "leave at the \"back\" door", "line one\nline two", "žluťoučký kůň, zvoní", "NULL")
		}
	}
	return json.Marshal(event)
}
