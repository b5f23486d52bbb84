package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// maxEvents keeps an event number within the seven digits of a delivery id.
const maxEvents = 9_999_999

// delivery is one attempt to send one event. Its id is in the body, as webhook senders do it, and from there in every
// row: so rows can be compared with answers, attempt by attempt.
type delivery struct {
	event   uint32
	attempt uint32
}

// id has a prefix that is new with every run, since a directory may hold the rows of earlier ones.
func (d delivery) id(run string) string { return fmt.Sprintf("%s-%07d-%d", run, d.event, d.attempt) }

// parseDelivery reports false for rows of other runs.
func parseDelivery(run, id string) (delivery, bool) {
	rest, ok := strings.CutPrefix(id, run+"-")
	if !ok {
		return delivery{}, false
	}
	event, attempt, _ := strings.Cut(rest, "-")
	e, err1 := strconv.ParseUint(event, 10, 32)
	a, err2 := strconv.ParseUint(attempt, 10, 32)
	return delivery{uint32(e), uint32(a)}, err1 == nil && err2 == nil
}

type webhook struct {
	Type      string    `json:"type"`
	CreatedAt time.Time `json:"createdAt"`
	Delivery  struct {
		ID      string `json:"id"`
		Attempt uint32 `json:"attempt"`
	} `json:"delivery"`
	Order    *order `json:"order,omitempty"`
	Customer struct {
		ID      string `json:"id"`
		Email   string `json:"email"`
		Country string `json:"country,omitempty"`
	} `json:"customer"`
}

type order struct {
	Number   string `json:"number"`
	Total    cents  `json:"total"`
	Currency string `json:"currency"`
	Items    []item `json:"items"`
	Note     string `json:"note,omitempty"`
}

type item struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// cents is an amount of money, written with two digits.
type cents int64

func (c cents) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%d.%02d", c/100, c%100), nil }

func orderNumber(event uint32) string { return fmt.Sprintf("SO-%07d", event) }

// newBody makes the body of one attempt. Attempts of one event differ in the delivery alone.
func newBody(cfg config, run string, d delivery) ([]byte, error) {
	rng := rand.New(rand.NewPCG(cfg.seed, uint64(d.event)))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	bad := rng.IntN(100) < cfg.bad

	var w webhook
	w.Type = pick("order.created", "order.paid", "order.paid", "order.shipped")
	w.CreatedAt = time.Now().UTC().Truncate(time.Millisecond)
	w.Delivery.ID, w.Delivery.Attempt = d.id(run), d.attempt
	w.Customer.ID = fmt.Sprintf("c-%04d", rng.IntN(5000))
	w.Customer.Email = w.Customer.ID + "@example.com"
	w.Customer.Country = pick("CZ", "DE", "FR", "US", "") // an empty one is left out: the column has a default
	o := &order{
		Number: orderNumber(d.event), Total: cents(rng.IntN(50_000)), Currency: pick("CZK", "EUR", "USD"),
		Note: pick("", "", "", "leave at the \"back\" door", "line one\nline two", "žluťoučký kůň, zvoní"),
	}
	for range 1 + rng.IntN(3) {
		o.Items = append(o.Items, item{SKU: fmt.Sprintf("SKU-%05d", rng.IntN(20_000)), Quantity: 1 + rng.IntN(4)})
	}
	if !bad {
		w.Order = o
	}
	return json.Marshal(w)
}
