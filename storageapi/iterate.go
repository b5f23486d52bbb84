package storageapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// Collect reads a sequence to its end. On an error it returns the values before it, with the error.
func Collect[V any](seq iter.Seq2[V, error]) ([]V, error) {
	var all []V
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// failed is a sequence of one error.
func failed[V any](err error) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var zero V
		yield(zero, err)
	}
}

// list is the sequence of a response that is one array. Its items are decoded one by one.
func list[V any](ctx context.Context, c *Client, r request) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		if _, _, err := page(ctx, c, r, yield); err != nil {
			failed[V](err)(yield)
		}
	}
}

// pageSize is the number of items that paged lists ask for at once.
const pageSize = 100

// pages is the sequence of a list that is read with limit and offset. Items that are added at the front meanwhile, as in
// lists of the newest first, may appear twice.
func pages[V any](ctx context.Context, c *Client, r request) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		r := r
		r.query = maps.Clone(r.query)
		if r.query == nil {
			r.query = url.Values{}
		}
		r.query.Set("limit", strconv.Itoa(pageSize))
		for offset := 0; ; offset += pageSize {
			r.query.Set("offset", strconv.Itoa(offset))
			n, more, err := page(ctx, c, r, yield)
			if err != nil {
				failed[V](err)(yield)
			}
			if err != nil || !more || n < pageSize {
				return
			}
		}
	}
}

// page yields the items of one response. It returns their number and whether the loop continues.
func page[V any](ctx context.Context, c *Client, r request, yield func(V, error) bool) (n int, more bool, err error) {
	r.method = http.MethodGet
	resp, _, err := c.open(ctx, r)
	if err != nil {
		return 0, false, err
	}
	defer drain(resp.Body)
	fail := func(err error) (int, bool, error) {
		return n, false, fmt.Errorf("storage api: %s %s: read response: %w", r.method, r.path, err)
	}
	dec := json.NewDecoder(resp.Body)
	if token, err := dec.Token(); err != nil {
		return fail(err)
	} else if token != json.Delim('[') {
		return fail(fmt.Errorf("want an array, got %v", token))
	}
	for dec.More() {
		var v V
		if err := dec.Decode(&v); err != nil {
			return fail(err)
		}
		n++
		if !yield(v, nil) {
			return n, false, nil
		}
	}
	if _, err := dec.Token(); err != nil {
		return fail(err)
	}
	return n, true, nil
}
