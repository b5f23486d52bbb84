package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/redpanda-data/benthos/v4/public/components/io" // http_server
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
)

// connect is the engine of Redpanda Connect. The input http_server responds when the output has stored the event.
func connect(batching string) func(place) error {
	return func(at place) error {
		spec := service.NewConfigSpec().Field(service.NewBatchPolicyField("batching")).Field(service.NewOutputMaxInFlightField())
		err := service.RegisterBatchOutput("rows", spec, func(conf *service.ParsedConfig, _ *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
			policy, err := conf.FieldBatchPolicy("batching")
			if err != nil {
				return nil, policy, 0, err
			}
			inFlight, err := conf.FieldMaxInFlight()
			return &rowsOutput{at: at}, policy, inFlight, err
		})
		if err != nil {
			return err
		}
		builder := service.NewStreamBuilder()
		err = builder.SetYAML(fmt.Sprintf("logger: {level: OFF}\ninput:\n  http_server: {address: %q, path: /post}\noutput:\n  rows: {%s}\n", at.Addr, batching))
		if err != nil {
			return err
		}
		stream, err := builder.Build()
		if err != nil {
			return err
		}
		return stream.Run(context.Background())
	}
}

// rowsOutput stores each batch with one INSERT, as the output sql_insert does. The module of that output mixes Apache-2.0 with a licence that is not
// open source, so this module does not require it.
type rowsOutput struct {
	at   place
	pool *pgxpool.Pool
}

func (o *rowsOutput) Connect(context.Context) (err error) {
	o.pool, err = openPool(o.at, connections) // as many as max_in_flight
	return err
}

func (o *rowsOutput) WriteBatch(ctx context.Context, messages service.MessageBatch) error {
	var places []string
	var values []any
	for i, m := range messages {
		body, err := m.AsBytes()
		if err != nil {
			return err
		}
		r, err := newRow(body)
		if err != nil {
			return err
		}
		places = append(places, fmt.Sprintf("($%d, $%d)", 2*i+1, 2*i+2))
		values = append(values, r.id, r.body)
	}
	_, err := o.pool.Exec(ctx, "INSERT INTO events VALUES "+strings.Join(places, ", "), values...)
	return err
}

func (o *rowsOutput) Close(context.Context) error {
	o.pool.Close()
	return nil
}
