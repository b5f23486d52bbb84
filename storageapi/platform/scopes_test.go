package platform_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

// What each kind of token may do, with no rights, with the right to read a bucket, to write it, and to manage all.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	kinds := []string{"none", "read", "write", "manage"}
	w.table(ctx, "in.c-other.t", nil, "a")
	for _, kind := range kinds {
		w.table(ctx, "in.c-a."+kind, nil, "a", "b")
	}
	job := must(w.StartImport(ctx, "in.c-a.none", storageapi.Import{FileID: w.upload("f", "a,b\n1,2\n")}))(t)
	must(w.WaitForJob(ctx, job.ID))(t)
	foreign := w.upload("foreign", "a,b\n1,2\n")
	event := must(w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: "m"}))(t)
	for at, kind := range kinds {
		in := storageapi.TokenCreate{Description: kind, CanManageBuckets: kind == "manage"}
		if kind == "read" || kind == "write" {
			in.BucketPermissions = map[string]string{"in.c-a": kind}
		}
		made := must(w.CreateToken(ctx, in))(t)
		own := must(w.client(made.Token).Upload(ctx, storageapi.FilePrepare{Name: "own"}, storageapi.BytesSource([]byte("a,b\n1,2\n"))))(t)
		const bucket = "/buckets/in.c-a"
		table := "/tables/in.c-a." + kind
		for _, c := range []struct {
			call, body string
			status     [4]int
		}{
			{"GET /tokens/verify", "", [4]int{200, 200, 200, 200}},
			{"GET /tokens/1002", "", [4]int{403, 403, 403, 403}}, // the master token
			{"DELETE /tokens/1002", "", [4]int{403, 403, 403, 403}},
			{"POST /tokens/1002/refresh", "", [4]int{403, 403, 403, 403}},
			{"POST /dev-branches", `{"name":"x"}`, [4]int{403, 403, 403, 403}},
			{"POST /buckets", `{"name":"new"}`, [4]int{403, 403, 403, 201}},
			{"GET " + bucket, "", [4]int{403, 200, 200, 200}},
			{"PUT " + bucket, `{"displayName":"d"}`, [4]int{403, 403, 403, 200}},
			{"GET " + bucket + "/metadata", "", [4]int{403, 200, 200, 200}},
			{"POST " + bucket + "/metadata", `{"provider":"p","metadata":[{"key":"k","value":"v"}]}`, [4]int{403, 403, 201, 201}},
			{"GET " + bucket + "/tables", "", [4]int{403, 200, 200, 200}},
			{"GET /buckets/in.c-other", "", [4]int{403, 403, 403, 200}},
			{"GET /tables/in.c-other.t", "", [4]int{403, 403, 403, 200}},
			{"POST " + bucket + "/tables-definition", fmt.Sprintf(`{"name":"d-%s","columns":[{"name":"a"}]}`, kind), [4]int{403, 403, 202, 202}},
			{"POST " + bucket + "/tables-async", fmt.Sprintf(`{"name":"f-%s","dataFileId":%d}`, kind, own.ID), [4]int{403, 403, 202, 202}},
			{"POST " + bucket + "/tables", fmt.Sprintf(`{"name":"b-%s","data":"a"}`, kind), [4]int{403, 403, 201, 201}},
			{"GET " + table, "", [4]int{403, 200, 200, 200}},
			{"GET " + table + "/data-preview", "", [4]int{403, 200, 200, 200}},
			{"POST " + table + "/export-async", `{}`, [4]int{403, 202, 202, 202}},
			{"POST " + table + "/import-async", fmt.Sprintf(`{"dataFileId":%d}`, own.ID), [4]int{403, 403, 202, 202}},
			{"POST " + table + "/import-async", fmt.Sprintf(`{"dataFileId":%d}`, foreign), [4]int{403, 403, 403, 403}},
			{"POST " + table + "/import", `{"data":"a,b\n"}`, [4]int{403, 403, 200, 200}},
			{"PUT " + table, fmt.Sprintf(`{"displayName":"n-%s"}`, kind), [4]int{403, 403, 200, 200}},
			{"POST " + table + "/metadata", `{"provider":"p","metadata":[{"key":"k","value":"v"}]}`, [4]int{403, 403, 201, 201}},
			{"POST " + table + "/primary-key", `{"columns":["a"]}`, [4]int{403, 403, 202, 202}},
			{"DELETE " + table + "/primary-key", "", [4]int{403, 403, 202, 202}},
			{"POST " + table + "/columns", `{"name":"c"}`, [4]int{403, 403, 202, 202}},
			{"DELETE " + table + "/columns/b", "", [4]int{403, 403, 202, 202}},
			{"DELETE " + table + "/rows?allowTruncate=1", "", [4]int{403, 403, 202, 202}},
			{"DELETE " + table + "?async=1", "", [4]int{403, 403, 202, 202}},
			{fmt.Sprintf("GET /jobs/%d", job.ID), "", [4]int{403, 200, 200, 200}},
			{fmt.Sprintf("GET /files/%d", own.ID), "", [4]int{200, 200, 200, 200}},
			{fmt.Sprintf("GET /files/%d?federationToken=1", foreign), "", [4]int{403, 403, 403, 403}},
			{fmt.Sprintf("GET /files/%d/content", foreign), "", [4]int{403, 403, 403, 403}},
			{fmt.Sprintf("POST /files/%d/tags", foreign), `{"tag":"x"}`, [4]int{403, 403, 403, 403}},
			{fmt.Sprintf("DELETE /files/%d", foreign), "", [4]int{403, 403, 403, 403}},
			{"GET /events/" + string(event), "", [4]int{404, 404, 404, 200}},
			{"GET /components/any/configs", "", [4]int{403, 403, 403, 200}},
			{"DELETE /tokens/" + string(made.ID), "", [4]int{204, 204, 204, 204}},
			{"GET /tokens/verify", "", [4]int{401, 401, 401, 401}},
		} {
			method, path, _ := strings.Cut(c.call, " ")
			a := w.raw(method, "/v2/storage"+path, jsonType, c.body, storageapi.TokenHeader, string(made.Token))
			if a.status != c.status[at] || a.status == 403 && !strings.Contains(string(a.body), `"code":"accessDenied"`) {
				t.Errorf("%s token: %s: got %d %s, want %d", kind, c.call, a.status, a.body, c.status[at])
			}
		}
		if kind == "manage" {
			continue
		}
		// Lists show the objects that the token may see, and no more.
		made = must(w.CreateToken(ctx, in))(t)
		c := w.client(made.Token)
		want := map[string]int{"none": 0, "read": 1, "write": 1}[kind]
		if list := must(storageapi.Collect(c.Buckets(ctx)))(t); len(list) != want {
			t.Errorf("%s token: got %d buckets, want %d", kind, len(list), want)
		}
		for table, err := range c.Tables(ctx) {
			check(t, err)
			if want == 0 || !strings.HasPrefix(table.ID, "in.c-a.") {
				t.Errorf("%s token: got table %s, want only tables that it may see", kind, table.ID)
			}
		}
		if list := must(storageapi.Collect(c.Files(ctx, storageapi.FileQuery{})))(t); len(list) != 0 {
			t.Errorf("%s token sees %d files of others, want 0", kind, len(list))
		}
	}
}
