package platform_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	self := must(w.VerifyToken(ctx))(t)
	if !self.IsMasterToken || self.Owner.ID != 1 || self.Organization == nil || self.Admin == nil || self.Token != "" {
		t.Errorf("master token %+v", self)
	}
	_, err := w.CreateToken(ctx, storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-x": "write"}})
	expectError(t, err, 400, "storage.tokens.invalidPermissions")
	w.table(ctx, "in.c-x.t", nil, "a")
	_, err = w.CreateToken(ctx, storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-x": "manage"}})
	expectError(t, err, 400, "storage.tokens.invalidPermissions")

	sink := must(w.CreateToken(ctx, storageapi.TokenCreate{
		Description: "[_internal] Stream Sink web/events", BucketPermissions: map[string]string{"in.c-x": "write"}, CanReadAllFileUploads: true,
	}))(t)
	if sink.Token == "" || sink.IsMasterToken || sink.BucketPermissions["in.c-x"] != "write" || !sink.CanReadAllFileUploads || sink.CreatorToken == nil {
		t.Errorf("created %+v", sink)
	}
	c := w.client(sink.Token)
	if v := must(c.VerifyToken(ctx))(t); v.ID != sink.ID || v.Token != "" {
		t.Errorf("verified %+v", v)
	}
	must(c.Table(ctx, "in.c-x.t"))(t)
	must(c.CreateTable(ctx, "in.c-x", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a")}))(t)
	_, err = c.CreateBucket(ctx, storageapi.BucketCreate{Name: "y"})
	expectError(t, err, 403, "accessDenied")
	_, err = c.Bucket(ctx, "in.c-y")
	expectError(t, err, 403, "accessDenied")
	for _, err := range c.Configurations(ctx, component) {
		expectError(t, err, 403, "accessDenied")
	}
	if list := must(storageapi.Collect(c.Tokens(ctx)))(t); len(list) != 1 {
		t.Errorf("a token that may not manage tokens sees %d of them", len(list))
	}
	_, err = c.TokenDetail(ctx, self.ID)
	expectError(t, err, 403, "accessDenied")

	fresh := must(c.RefreshToken(ctx, sink.ID))(t)
	if fresh.Token == sink.Token {
		t.Error("the secret is the old one")
	}
	_, err = c.VerifyToken(ctx)
	expectError(t, err, 401, "storage.tokenInvalid")
	c = w.client(fresh.Token)
	text := "other"
	if u := must(w.UpdateToken(ctx, sink.ID, storageapi.TokenUpdate{Description: &text, BucketPermissions: map[string]string{"in.c-x": "read"}}))(t); u.Description != text {
		t.Errorf("updated %+v", u)
	}
	_, err = c.StartImport(ctx, "in.c-x.t", storageapi.Import{FileID: 1})
	expectError(t, err, 403, "accessDenied")

	// Without the right to manage tokens only a minimal one can be made.
	minimal := must(c.CreateToken(ctx, storageapi.TokenCreate{CanManageBuckets: true, ExpiresIn: 60}))(t)
	if minimal.CanManageBuckets || minimal.Expires.IsZero() || minimal.Description != "Created by other" {
		t.Errorf("minimal token %+v", minimal)
	}
	check(t, c.DeleteToken(ctx, sink.ID))
	_, err = c.VerifyToken(ctx)
	expectError(t, err, 401, "storage.tokenInvalid")
	expectError(t, w.DeleteToken(ctx, sink.ID), 404, "storage.tokens.notFound")
	expectError(t, w.DeleteToken(ctx, self.ID), 400, "storage.tokens.validation")
	expectError(t, w.ShareToken(ctx, minimal.ID, "a@example.com", "hello"), 501, "notImplemented")
}

func TestTokenOfAnotherStack(t *testing.T) {
	t.Parallel()
	here, there := newWorld(t), newWorld(t)
	foreign := must(there.CreateToken(t.Context(), storageapi.TokenCreate{Description: "d"}))(t)
	_, err := here.client(foreign.Token).VerifyToken(t.Context())
	expectError(t, err, 401, "storage.tokenInvalid")
	if !strings.Contains(err.Error(), "Invalid access token") || strings.Contains(err.Error(), string(foreign.Token)) {
		t.Errorf("text %q", err)
	}
	_, err = here.client("").VerifyToken(t.Context())
	expectError(t, err, 401, "")
	if !strings.Contains(err.Error(), "Access token must be set") {
		t.Errorf("text %q", err)
	}
	if !storageapi.IsUnauthorized(err) {
		t.Error("not IsUnauthorized")
	}
}

// A token that may manage buckets has the right to each of them, whichever call describes it.
func TestTokenOfAllBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-x.t", nil, "a")
	made := must(w.CreateToken(ctx, storageapi.TokenCreate{CanManageBuckets: true}))(t)
	text := "other"
	for call, token := range map[string]*storageapi.Token{
		"create": made, "verify": must(w.client(made.Token).VerifyToken(ctx))(t), "detail": must(w.TokenDetail(ctx, made.ID))(t),
		"update": must(w.UpdateToken(ctx, made.ID, storageapi.TokenUpdate{Description: &text}))(t), "refresh": must(w.RefreshToken(ctx, made.ID))(t),
	} {
		if len(token.BucketPermissions) != 1 || token.BucketPermissions["in.c-x"] != "manage" {
			t.Errorf("%s: got rights %v, want to manage in.c-x alone", call, token.BucketPermissions)
		}
	}
	// They are not stored. A bucket that is created later is one of them.
	w.table(ctx, "in.c-y.t", nil, "a")
	if got := must(w.TokenDetail(ctx, made.ID))(t).BucketPermissions; len(got) != 2 {
		t.Errorf("rights %v after another bucket was made", got)
	}
}

// A refreshed master token stays refreshed when the server is opened again with the options of the first time.
func TestMasterTokenIsRefreshed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	self := must(w.VerifyToken(ctx))(t)
	fresh := must(w.RefreshToken(ctx, self.ID))(t)
	for range 2 {
		if _, err := w.VerifyToken(ctx); !storageapi.IsUnauthorized(err) {
			t.Errorf("the secret before: %v", err)
		}
		must(w.client(fresh.Token).VerifyToken(ctx))(t)
		w.restart()
	}
	// Another token of the options is taken, once.
	w.opts.Token = "another-master-token"
	w.restart()
	must(w.client("another-master-token").VerifyToken(ctx))(t)
	if _, err := w.client(fresh.Token).VerifyToken(ctx); !storageapi.IsUnauthorized(err) {
		t.Errorf("the secret before: %v", err)
	}
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := must(w.CreateToken(t.Context(), storageapi.TokenCreate{ExpiresIn: 1}))(t)
	c := w.client(made.Token)
	for {
		_, err := c.VerifyToken(t.Context())
		if err == nil {
			continue // the second is not over
		}
		expectError(t, err, 401, "storage.tokenInvalid")
		break
	}
	if !must(w.TokenDetail(t.Context(), made.ID))(t).IsExpired {
		t.Error("the token does not say that it has expired")
	}
}

// The project says how much is in its tables.
func TestProjectTotals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table(t.Context(), "in.c-x.t", nil, "a")
	check(t, importCSV(w, t.Context(), "in.c-x.t", storageapi.Import{}, "f", "a\n1\n2\n"))
	owner := must(w.VerifyToken(t.Context()))(t).Owner
	if owner.RowsCount != 2 || owner.DataSizeBytes != must(w.Table(t.Context(), "in.c-x.t"))(t).DataSizeBytes {
		t.Errorf("got %d rows, %d bytes, want 2, as many bytes as the table", owner.RowsCount, owner.DataSizeBytes)
	}
}

// The rights on a bucket go with it. A later bucket with the same id is a different bucket.
func TestPermissionsGoWithTheBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	branch := must(w.CreateDevBranch(ctx, "dev", ""))(t).ID
	dev := w.Branch(branch.String())
	add := func(c *storageapi.Client) {
		t.Helper()
		must(c.CreateBucket(ctx, storageapi.BucketCreate{Name: "x"}))(t)
	}
	for _, name := range []string{"x", "y"} {
		must(w.CreateBucket(ctx, storageapi.BucketCreate{Name: name}))(t)
	}
	permissions := func(id storageapi.ID) map[string]string {
		t.Helper()
		return must(w.TokenDetail(ctx, id))(t).BucketPermissions
	}
	for name, remove := range map[string]func(token storageapi.ID){
		"at once": func(storageapi.ID) { w.raw("DELETE", "/v2/storage/buckets/in.c-x", "", "") },
		"job":     func(storageapi.ID) { check(t, w.DeleteBucket(ctx, "in.c-x", true)) },
		"branch": func(token storageapi.ID) {
			add(dev)
			check(t, w.DeleteBucket(ctx, "in.c-x", true))
			if got := permissions(token); got["in.c-x"] != "write" {
				t.Errorf("permissions %v, a branch still has the bucket", got)
			}
			check(t, w.DeleteDevBranch(ctx, branch))
		},
	} {
		sink := must(w.CreateToken(ctx, storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-x": "write", "in.c-y": "read"}}))(t)
		remove(sink.ID)
		add(w.Client)
		if got := permissions(sink.ID); len(got) != 1 || got["in.c-y"] != "read" {
			t.Errorf("%s: permissions %v, want those on the other bucket", name, got)
		}
		_, err := w.client(sink.Token).Bucket(ctx, "in.c-x")
		expectError(t, err, 403, "accessDenied")
	}
}

// TestProgrammaticTokens checks that a token that is bound to no project stands for the master token, for its project and
// as bearer alone.
func TestProgrammaticTokens(t *testing.T) {
	t.Parallel()
	const personal = "kbc_pat_of-a-person"
	w := newWorld(t, func(o *platform.Options) { o.ProgrammaticTokens = []storageapi.Secret{personal} })
	ctx := t.Context()
	self := must(w.VerifyToken(ctx))(t)
	bearer := w.client("Bearer " + personal)
	if v := must(bearer.WithProject(1).VerifyToken(ctx))(t); v.ID != self.ID || !v.IsMasterToken || v.Token != "" {
		t.Errorf("verified %+v", v)
	}
	must(bearer.WithProject(1).CreateToken(ctx, storageapi.TokenCreate{Description: "made"}))(t)
	for code, c := range map[int][]*storageapi.Client{
		400: {bearer},
		401: {bearer.WithProject(2), w.client(personal).WithProject(1), w.client("Bearer " + personal + "x").WithProject(1)},
	} {
		for i, c := range c {
			_, err := c.VerifyToken(ctx)
			name := map[int]string{400: "storage.validation", 401: "storage.tokenInvalid"}[code]
			expectError(t, err, code, name)
			if strings.Contains(err.Error(), personal) {
				t.Errorf("%d, %d: the error has the token", code, i)
			}
		}
	}
	must(w.WithProject(5).VerifyToken(ctx))(t) // other tokens know their project themselves
	w.opts.ProgrammaticTokens = nil
	w.restart()
	_, err := bearer.WithProject(1).VerifyToken(ctx)
	expectError(t, err, 401, "storage.tokenInvalid")
	bad := platform.Options{ProgrammaticTokens: []storageapi.Secret{"kbc_pat_short", "no-prefix-but-long-enough", "kbc_at_with a blank in it", "kbc_at_0123456789"}}
	if err := bad.Validate(); err == nil || strings.Count(err.Error(), "programmatic token") != 3 || strings.Contains(err.Error(), "blank") {
		t.Errorf("got %v, want an error and strings.Count(err.Error(), \"programmatic token\") == 3 and !strings.Contains(err.Error(), \"blank\")", err)
	}
}
