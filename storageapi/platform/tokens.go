package platform

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay/storageapi"
)

// token is the record of a token. It has the hash of the secret only.
type token struct {
	ID                    int64               `json:"id"`
	Hash                  string              `json:"hash"`
	Description           string              `json:"description"`
	Created               storageapi.Time     `json:"created"`
	Refreshed             storageapi.Time     `json:"refreshed"`
	Expires               storageapi.Time     `json:"expires"`
	Master                bool                `json:"master"`
	CanManageBuckets      bool                `json:"canManageBuckets"`
	CanManageTokens       bool                `json:"canManageTokens"`
	CanReadAllFileUploads bool                `json:"canReadAllFileUploads"`
	CanPurgeTrash         bool                `json:"canPurgeTrash"`
	Buckets               map[string]string   `json:"buckets,omitempty"`
	Components            []string            `json:"components,omitempty"`
	Creator               storageapi.TokenRef `json:"creator"`
}

const masterDescription = "Master token"

// masterKey is the id of the master token, masterOptionKey the hash of the last token of the options that became one.
const (
	masterKey       = "master-token"
	masterOptionKey = "master-token-option"
)

// maxDescription is the longest description of a token, in characters.
const maxDescription = 255

func hashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// newSecret makes the secret of a token. It begins with the ids of project and token, as on the platform.
func (s *Server) newSecret(id int64) string {
	return fmt.Sprintf("%d-%d-%s", s.opts.ProjectID, id, rand.Text()+rand.Text())
}

// putMaster stores the master token, with the secret of the options if there is one.
func (s *Server) putMaster(tx *txn, id int64) {
	var t token
	found := tx.get(tokenKey(id), &t)
	hash := hashToken(string(s.opts.Token))
	// A token of the options that was taken over once is not taken again, because it may have been refreshed since.
	var taken string
	tx.get(masterOptionKey, &taken)
	if found && (s.opts.Token == "" || taken == hash) {
		return
	}
	tx.put(masterOptionKey, hash)
	if found && t.Hash == hash {
		return
	}
	if found {
		tx.delete(tokenHashKey(t.Hash))
	} else {
		t = token{
			ID: id, Description: masterDescription, Created: now(), Master: true, CanManageBuckets: true, CanManageTokens: true,
			CanReadAllFileUploads: true, CanPurgeTrash: true,
		}
		t.Creator = storageapi.TokenRef{ID: storageapi.IntID(id), Description: masterDescription}
	}
	t.Hash, t.Refreshed = hash, now()
	tx.put(masterKey, id)
	putToken(tx, t)
}

func putToken(tx *txn, t token) {
	tx.put(tokenHashKey(t.Hash), t.ID)
	tx.put(tokenKey(t.ID), t)
}

// authenticate finds the token of a call. It does not distinguish unknown, deleted and foreign tokens. Errors never contain the
// token.
func (c *request) authenticate() error {
	if rights, inside := c.r.Context().Value(rightsKey{}).(token); inside {
		c.token = &rights
		return nil
	}
	secret := c.r.Header.Get(storageapi.TokenHeader)
	if secret == "" {
		secret, _ = strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	}
	if secret == "" {
		return refuse(http.StatusUnauthorized, "", "Access token must be set")
	}
	hash := hashToken(secret)
	idKey := tokenHashKey(hash)
	if c.s.programmatic[hash] {
		if err := c.exchange(); err != nil {
			return err
		}
		idKey = masterKey
	}
	return c.s.store.view(func(tx *txn) error {
		var id int64
		var t token
		if !tx.get(idKey, &id) || !tx.get(tokenKey(id), &t) || t.expired() {
			return refuse(http.StatusUnauthorized, "storage.tokenInvalid", "Invalid access token")
		}
		c.token = &t
		return nil
	})
}

// The beginnings of programmatic tokens.
const (
	accessTokenPrefix   = "kbc_at_"
	personalTokenPrefix = "kbc_pat_"
)

func isProgrammatic(secret string) bool {
	return strings.HasPrefix(secret, accessTokenPrefix) || strings.HasPrefix(secret, personalTokenPrefix)
}

// exchange checks the project of a call with a valid programmatic token.
func (c *request) exchange() error {
	project := c.r.Header.Get(storageapi.ProjectHeader)
	switch {
	case project == "":
		return refuse(http.StatusBadRequest, "storage.validation", "Header %s is required with a programmatic token", storageapi.ProjectHeader)
	case project != strconv.FormatInt(c.s.opts.ProjectID, 10), c.r.Header.Get(storageapi.TokenHeader) != "":
		return refuse(http.StatusUnauthorized, "storage.tokenInvalid", "Invalid access token")
	}
	return nil
}

func (t *token) expired() bool { return !t.Expires.IsZero() && !time.Now().Before(t.Expires.Time) }

// mayRead, mayWrite and mayUse are the rights of a token.
func (t *token) mayRead(bucket string) bool { return t.CanManageBuckets || t.Buckets[bucket] != "" }

func (t *token) mayWrite(bucket string) bool {
	return t.CanManageBuckets || t.Buckets[bucket] == "write"
}

func (t *token) mayUse(component string) bool {
	return t.CanManageBuckets || slices.Contains(t.Components, component)
}

func (s *Server) tokenRoutes() []route {
	return []route{
		{method: "GET", path: "/tokens/verify", summary: "Verify the token of the call", branch: optionalBranch, result: storageapi.Token{}, read: (*request).verifyToken},
		{method: "GET", path: "/tokens", summary: "List tokens", branch: optionalBranch, result: []storageapi.Token{}, read: (*request).listTokens},
		{method: "POST", path: "/tokens", summary: "Create a token", branch: optionalBranch, body: tokenBody, status: http.StatusCreated, result: storageapi.Token{}, run: (*request).createToken},
		{method: "GET", path: "/tokens/{id}", summary: "Token detail", branch: optionalBranch, result: storageapi.Token{}, read: (*request).tokenDetail},
		{method: "PUT", path: "/tokens/{id}", summary: "Update a token", branch: optionalBranch, body: tokenBody, result: storageapi.Token{}, run: (*request).updateToken},
		{method: "DELETE", path: "/tokens/{id}", summary: "Delete a token", branch: optionalBranch, run: (*request).deleteToken},
		{method: "POST", path: "/tokens/{id}/refresh", summary: "Give a token a new secret", branch: optionalBranch, result: storageapi.Token{}, run: (*request).refreshToken},
		{method: "POST", path: "/tokens/{id}/share", summary: "Send a token by mail", branch: optionalBranch, body: "recipientEmail! message", status: http.StatusNotImplemented, run: (*request).shareToken},
	}
}

// tokenAnswer describes a token. organization says that the call gives more about the project.
func (c *request) tokenAnswer(t *token, secret string, organization bool) storageapi.Token {
	out := storageapi.Token{
		ID: storageapi.ID(fmt.Sprint(t.ID)), Token: storageapi.Secret(secret), Description: t.Description,
		Created: t.Created, Refreshed: t.Refreshed, Expires: t.Expires,
		IsExpired: t.expired(), IsMasterToken: t.Master, CanManageBuckets: t.CanManageBuckets, CanManageTokens: t.CanManageTokens,
		CanReadAllFileUploads: t.CanReadAllFileUploads, CanPurgeTrash: t.CanPurgeTrash, CanCreateJobs: t.CanManageBuckets || len(t.Components) > 0,
		CanManageProtectedDefaultBranch: t.Master, DailyCapacity: 0,
		URI:               c.base() + storagePath + "/tokens/" + fmt.Sprint(t.ID),
		BucketPermissions: t.Buckets, ComponentAccess: t.Components, CreatorToken: &t.Creator, Owner: c.s.owner(),
	}
	if organization {
		out.Organization = &storageapi.Organization{ID: "1"}
	}
	if t.Master {
		out.CreatorToken = nil
		out.Admin = &storageapi.Admin{ID: storageapi.IntID(t.ID), Name: "Admin", Role: "admin", Features: []string{}, IsOrganizationMember: true}
	}
	return out
}

func (s *Server) owner() storageapi.Project {
	return storageapi.Project{
		ID: storageapi.IntID(s.opts.ProjectID), Name: s.opts.ProjectName, Type: "production", Region: "local",
		Created: s.defaultBranch.Created, Features: notNil(s.opts.ProjectFeatures), DefaultBackend: "directory",
		FileStorageProvider: storageapi.ProviderAzure, DataRetentionTimeInDays: 0,
		Limits: storageapi.Map[storageapi.Quantity]{
			"storage.jobsParallelism":    {Name: "storage.jobsParallelism", Value: float64(s.opts.StorageJobs)},
			"components.jobsParallelism": {Name: "components.jobsParallelism", Value: float64(s.opts.QueueJobs)},
		},
	}
}

// withManaged lists the rights on all buckets of a token that may manage them.
func (c *request) withManaged(tx *txn, t *token) *token {
	if !t.CanManageBuckets {
		return t
	}
	out := *t
	out.Buckets = make(map[string]string)
	for b := range each[bucket](tx, key("bucket", c.branch, ""), false) {
		out.Buckets[b.ID] = "manage"
	}
	return &out
}

// fullToken describes a token with all that there is to say about its project.
func (c *request) fullToken(tx *txn, t *token) storageapi.Token {
	out := c.tokenAnswer(c.withManaged(tx, t), "", true)
	for t := range each[table](tx, key("table", c.s.defaultBranch.key(), ""), false) {
		out.Owner.RowsCount += t.Rows
		out.Owner.DataSizeBytes += t.Bytes
	}
	return out
}

func (c *request) verifyToken(tx *txn) (any, error) { return c.fullToken(tx, c.token), nil }

func (c *request) listTokens(tx *txn) (any, error) {
	list := []storageapi.Token{}
	for t := range each[token](tx, key("token", ""), false) {
		if t.ID == c.token.ID || c.token.CanManageTokens {
			list = append(list, c.tokenAnswer(c.withManaged(tx, &t), "", false))
		}
	}
	return list, nil
}

// findToken reads the token of the path, if the caller may see it.
func (c *request) findToken(tx *txn) (*token, error) {
	const code = "storage.tokens.notFound"
	id, err := c.knownID("id", "Token", code)
	if err != nil {
		return nil, err
	}
	if id != c.token.ID && !c.token.CanManageTokens {
		return nil, accessDenied("token %d", id)
	}
	t, err := pathRecord[token](c, tx, "Token", code, tokenKey)
	return &t, err
}

func (c *request) tokenDetail(tx *txn) (any, error) {
	t, err := c.findToken(tx)
	if err != nil {
		return nil, err
	}
	return c.fullToken(tx, t), nil
}

const tokenCode = "storage.tokens.validation"

func checkDescription(in *input, text string) {
	if utf8.RuneCountInString(text) > maxDescription {
		in.fail("description", "has more than %d characters", maxDescription)
	}
}

// readBuckets reads and checks the permissions of a token.
func (c *request) readBuckets(tx *txn, in *input) map[string]string {
	var wanted storageapi.Map[string]
	in.decode("bucketPermissions", &wanted, "an object of read and write by bucket")
	for id, right := range wanted {
		if right != "read" && right != "write" {
			in.failCode("storage.tokens.invalidPermissions", "bucketPermissions", "permission %q of bucket %q: want read or write", cut(right, 40), cut(id, 120))
		} else if !tx.has(bucketKey(c.branch, id)) {
			in.failCode("storage.tokens.invalidPermissions", "bucketPermissions", "there is no bucket %q", cut(id, 120))
		}
	}
	return wanted
}

func (c *request) createToken() (any, error) {
	in := c.input(tokenCode)
	t := token{Created: now(), Refreshed: now(), Creator: c.creator()}
	t.Description = in.textOr("description", "Created by "+c.token.Description)
	checkDescription(in, t.Description)
	if seconds := in.integer("expiresIn"); seconds != nil {
		if *seconds <= 0 || *seconds > 1<<31 {
			in.fail("expiresIn", "want a positive number of seconds")
		} else {
			t.Expires = storageapi.Time{Time: t.Created.Add(time.Duration(*seconds) * time.Second)}
		}
	}
	t.ID = c.newID()
	return c.change(tokensLock, func(tx *txn) (any, error) {
		// Without the right to manage tokens only a minimal one can be made.
		if c.token.CanManageTokens {
			t.CanManageBuckets = in.flagOr("canManageBuckets", false)
			t.CanReadAllFileUploads = in.flagOr("canReadAllFileUploads", false)
			t.CanPurgeTrash = in.flagOr("canPurgeTrash", false)
			t.Components, _ = in.texts("componentAccess")
			t.Buckets = c.readBuckets(tx, in)
		}
		return c.answerSecret(tx, &t), nil
	})
}

// answerSecret gives a token a new secret, and returns the token with the secret.
func (c *request) answerSecret(tx *txn, t *token) storageapi.Token {
	secret := c.s.newSecret(t.ID)
	t.Hash = hashToken(secret)
	putToken(tx, *t)
	return c.tokenAnswer(c.withManaged(tx, t), secret, false)
}

// tokensLock is one lock for all tokens, so that no right is given during the deletion of its bucket.
const tokensLock = "tokens"

// dropPermissions takes the rights on a bucket from all tokens once no branch has a bucket of that id. Called with
// tokensLock held.
func dropPermissions(tx *txn, bucketID string) {
	for b := range each[devBranch](tx, key("branch", ""), false) {
		if tx.has(bucketKey(b.key(), bucketID)) {
			return
		}
	}
	for _, t := range all[token](tx, key("token", "")) {
		if t.Buckets[bucketID] != "" {
			delete(t.Buckets, bucketID)
			putToken(tx, t)
		}
	}
}

func (c *request) updateToken() (any, error) {
	in := c.input(tokenCode)
	if err := c.fault(); err != nil {
		return nil, err
	}
	if !c.token.CanManageTokens {
		return nil, accessDenied("token %s", c.r.PathValue("id"))
	}
	return c.change(tokensLock, func(tx *txn) (any, error) {
		t, err := c.findToken(tx)
		if err != nil {
			return nil, err
		}
		if description := in.text("description"); description != nil {
			checkDescription(in, *description)
			t.Description = *description
		}
		if in.has("bucketPermissions") {
			t.Buckets = c.readBuckets(tx, in)
		}
		if components, given := in.texts("componentAccess"); given {
			t.Components = components
		}
		t.CanReadAllFileUploads = in.flagOr("canReadAllFileUploads", t.CanReadAllFileUploads)
		t.CanPurgeTrash = in.flagOr("canPurgeTrash", t.CanPurgeTrash)
		putToken(tx, *t)
		return c.fullToken(tx, t), nil
	})
}

// replaceToken removes the secret of the token of the path and runs then on the token.
func (c *request) replaceToken(then func(tx *txn, t *token) (any, error)) (any, error) {
	return c.change(tokensLock, func(tx *txn) (any, error) {
		t, err := c.findToken(tx)
		if err != nil {
			return nil, err
		}
		tx.delete(tokenHashKey(t.Hash))
		return then(tx, t)
	})
}

func (c *request) deleteToken() (any, error) {
	return c.replaceToken(func(tx *txn, t *token) (any, error) {
		if t.Master {
			return nil, refuse(http.StatusBadRequest, tokenCode, "A master token cannot be deleted")
		}
		tx.delete(tokenKey(t.ID))
		return nil, nil
	})
}

func (c *request) refreshToken() (any, error) {
	return c.replaceToken(func(tx *txn, t *token) (any, error) {
		t.Refreshed = now()
		return c.answerSecret(tx, t), nil
	})
}

// shareToken checks the request and returns 501, because the server cannot send mail.
func (c *request) shareToken() (any, error) {
	in := c.input(tokenCode)
	in.required("recipientEmail")
	in.text("message")
	if err := c.view(func(tx *txn) error { _, err := c.findToken(tx); return err }); err != nil {
		return nil, err
	}
	return nil, refuse(http.StatusNotImplemented, "notImplemented", "This server sends no mail")
}
