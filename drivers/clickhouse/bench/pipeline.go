package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/clickhouse"
	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/pipebench"
)

// pipelineDatabase is the server of the pipeline's scenarios. In a service that will be killed there is no server, only its address.
func pipelineDatabase(server *clickhousetest.Server, address string) pipebench.Database {
	db := pipebench.Database{
		Name:    "clickhouse",
		Address: address,
		Reset: func(ctx context.Context) error {
			if err := execute(ctx, address, "DROP DATABASE IF EXISTS "+database+" SYNC"); err != nil {
				return err
			}
			return execute(ctx, address, "CREATE DATABASE "+database)
		},
		Target: func(context.Context) (driver.Target, func() error, error) {
			target, err := clickhouse.Open("clickhouse://"+url.UserPassword(clickhousetest.User, clickhousetest.Password).String()+"@"+address+"/"+database, clickhouse.Options{})
			if err != nil {
				return nil, nil, err
			}
			return target, target.Close, nil
		},
		Own: func(ctx context.Context) (pipebench.Own, error) { return own(ctx, address) },
	}
	if server == nil {
		return db
	}
	db.Count = func(context.Context) (int64, error) {
		rows, err := server.Query("SELECT toString(count()) FROM " + database + "." + pipebench.Table)
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(*rows[0][0], 10, 64)
	}
	db.Users = func(context.Context) (map[int64]int, error) {
		rows, err := server.Query("SELECT toString(user_id), toString(count()) FROM " + database + "." + pipebench.Table + " GROUP BY user_id")
		users := make(map[int64]int, len(rows))
		for _, row := range rows {
			id, _ := strconv.ParseInt(*row[0], 10, 64)
			users[id], _ = strconv.Atoi(*row[1])
		}
		return users, err
	}
	db.CPU = server.CPU
	db.Outages = map[string]func() (func() error, error){"shutdown": server.Shutdown}
	return db
}

// own is what services do that send their events to ClickHouse themselves. An insert of one event is asynchronous and returns when its row is stored. A
// batcher in memory inserts 1,000 at once.
func own(ctx context.Context, address string) (o pipebench.Own, err error) {
	err = execute(ctx, address, "CREATE TABLE IF NOT EXISTS "+database+"."+pipebench.Table+
		" (id UUID, received_at DateTime64(6, 'UTC'), user_id Int64, body String) ENGINE = MergeTree ORDER BY received_at")
	if err != nil {
		return o, err
	}
	insert := func(ctx context.Context, asynchronous string, events ...pipebench.Event) error {
		var rows []byte
		for _, e := range events {
			rows = append(append(rows, `{"id":"`...), e.ID.String()...)
			rows = e.At.UTC().AppendFormat(append(rows, `","received_at":"`...), "2006-01-02 15:04:05.000000")
			rows = strconv.AppendInt(append(rows, `","user_id":`...), e.UserID, 10)
			rows = append(strconv.AppendQuote(append(rows, `,"body":`...), e.Body), "}\n"...)
		}
		return post(ctx, address, url.Values{
			"query": {"INSERT INTO " + database + "." + pipebench.Table + " FORMAT JSONEachRow"}, "async_insert": {asynchronous}, "wait_for_async_insert": {"1"},
		}, rows)
	}
	later, flush, end := pipebench.InMemory(func(events []pipebench.Event) error {
		return insert(context.WithoutCancel(ctx), "0", events...)
	})
	return pipebench.Own{
		Insert:      func(ctx context.Context, e pipebench.Event) error { return insert(ctx, "1", e) },
		InsertBatch: func(ctx context.Context, events []pipebench.Event) error { return insert(ctx, "1", events...) },
		InsertLater: later,
		Flush:       flush,
		Close:       func() error { end(); return nil },
	}, nil
}

// client keeps a connection for each of the callers.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2048, IdleConnTimeout: time.Minute}}

func execute(ctx context.Context, address, statement string) error {
	return post(ctx, address, nil, []byte(statement))
}

func post(ctx context.Context, address string, parameters url.Values, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/?"+parameters.Encode(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.SetBasicAuth(clickhousetest.User, clickhousetest.Password)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, text)
	}
	return err
}
