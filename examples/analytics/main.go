// Command analytics stores events and queries them with SQL, in one process. Events are Go values, the tables are in a
// SQLite database that any other program may read as well.
//
//	cd examples/analytics && go run .          100,000 orders, in a temporary directory that is kept
//	go run . -n 1000000 -dir data              more of them; the next run adds to the same table
//
// The last line has the result, and the exit status is 1 if an order is missing or doubled:
//
//	analytics: sent=100000 rows=100000
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// order is an event. Its fields are the columns of the table.
type order struct {
	Run     string    `json:"run"`
	At      time.Time `json:"at"`
	Product string    `json:"product"`
	Country string    `json:"country"`
	Cents   int64     `json:"cents"`
	Coupon  *string   `json:"coupon"` // NULL for most
}

func main() {
	n := flag.Int("n", 100_000, "number of orders")
	dir := flag.String("dir", "", "data directory (default a new temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *dir, *n); err != nil {
		fmt.Fprintln(os.Stderr, "analytics:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, dir string, n int) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "analytics-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, "orders.db")
	target, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	eng, err := forebay.Open(filepath.Join(dir, "forebay"), forebay.Options{
		Target: target, Buffer: buffer.Tuning{MinImportInterval: time.Second},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	columns, err := mapping.ColumnsOf[order]()
	if err != nil {
		return err
	}
	second := trigger.Conditions{Interval: time.Second}
	err = eng.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", Settings: forebay.Settings{Upload: second, Import: second},
		Table: forebay.Table{ID: "orders", Columns: columns, Extend: true}, // a new field of order becomes a new column
	}}})
	if err != nil {
		return err
	}
	orders, err := forebay.Typed[order](eng, "shop")
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()

	id := time.Now().UTC().Format(time.RFC3339Nano)
	begin := time.Now()
	shown := begin
	for sent := 0; sent < n; {
		batch := make([]order, min(200, n-sent))
		for i := range batch {
			batch[i] = newOrder(id)
		}
		if _, err := orders.Ingest(ctx, batch...); err != nil { // on disk when it returns
			return err
		}
		sent += len(batch)
		if time.Since(shown) >= time.Second {
			shown = time.Now()
			var rows int
			if err := db.QueryRowContext(ctx, "SELECT count(*) FROM orders WHERE run = ?", id).Scan(&rows); err != nil {
				return err
			}
			fmt.Fprintf(out, "%8d orders on disk, %8d in the table\n", sent, rows)
		}
	}
	fmt.Fprintf(out, "%d orders on disk after %s", n, time.Since(begin).Round(time.Millisecond))
	if err := eng.Flush(ctx, "shop"); err != nil { // now all of them are in the table
		return err
	}
	fmt.Fprintf(out, ", in the table after %s\n\n", time.Since(begin).Round(time.Millisecond))

	for _, query := range []string{
		`SELECT country, count(*) AS orders, printf('%.2f', sum(cents) / 100.0) AS revenue, count(coupon) AS coupons
  FROM orders GROUP BY country ORDER BY sum(cents) DESC`,
		`SELECT product, strftime('%H:%M:%S', at) AS second, count(*) AS orders
  FROM orders GROUP BY product, second ORDER BY orders DESC LIMIT 5`,
	} {
		if err := show(ctx, out, db, query); err != nil {
			return err
		}
	}
	var rows int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM orders WHERE run = ?", id).Scan(&rows); err != nil {
		return err
	}
	fmt.Fprintf(out, "Ask more: sqlite3 %s\nanalytics: sent=%d rows=%d\n", path, n, rows)
	if rows != n {
		return fmt.Errorf("the table has %d rows of this run, want %d", rows, n)
	}
	return nil
}

func newOrder(run string) order {
	products := [...]string{"kettle", "lamp", "chair", "desk"}
	countries := [...]string{"CZ", "DE", "FR", "PL", "US"}
	o := order{
		Run: run, At: time.Now(), Product: products[rand.IntN(len(products))], Country: countries[rand.IntN(len(countries))], Cents: 100 + rand.Int64N(50_000),
	}
	if rand.IntN(10) == 0 {
		coupon := "WELCOME"
		o.Coupon = &coupon
	}
	return o
}

// show prints a query with its result.
func show(ctx context.Context, out io.Writer, db *sql.DB, query string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n\n", query)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(table, "%s\t", c)
		}
		fmt.Fprintln(table)
	}
	line(names)
	for rows.Next() {
		cells, to := make([]string, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		line(cells)
	}
	if err := errors.Join(rows.Err(), table.Flush()); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return nil
}
