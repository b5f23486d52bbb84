package stream

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/forebay/forebay/catalog"
)

// Identity is what a token stands for.
type Identity struct {
	// ProjectID is the token's project. The API serves one project; tokens of others are as good as unknown ones.
	ProjectID int
	// Master tells that the token may use the API at all, Admin that it may change something.
	Master, Admin bool
	// By is recorded with every change.
	By catalog.By
}

// Authenticator verifies the tokens of the Stream API: [StaticToken] knows one, package stream/platformauth asks the
// platform. Implementations must be safe for concurrent use and should remember answers for a short time.
type Authenticator interface {
	// Verify returns what a token stands for. A token that is refused is an [*AuthError]. When nobody can tell now it is
	// an [*UnavailableError]; other errors are faults of the service.
	Verify(ctx context.Context, token string) (Identity, error)
}

// AuthError is a token that is refused.
type AuthError struct {
	// Status is the HTTP status, Name the machine-readable error, Message the text of the answer. None has the token.
	Status        int
	Name, Message string
	// ExceptionID is that of the platform, if it gave one.
	ExceptionID string
}

func (e *AuthError) Error() string { return e.Name + ": " + e.Message }

// UnavailableError says that a token cannot be verified now, because the platform cannot be reached or is at fault. The
// request is answered 503, with Retry-After.
type UnavailableError struct {
	// Name, Message and ExceptionID are those of the platform's answer. Empty: there was none.
	Name, Message, ExceptionID string
	// RetryAfter is when the client should try again. Default: 5 seconds.
	RetryAfter time.Duration
	// Err is the cause. It goes to the log only.
	Err error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("tokens cannot be verified: %v", e.Err) }
func (e *UnavailableError) Unwrap() error { return e.Err }

// invalidToken is the platform's answer for a token that it does not know, also for one of another stack.
var invalidToken = &AuthError{Status: http.StatusUnauthorized, Name: "storage.tokenInvalid", Message: "Invalid Token"}

// missingToken is told with all else that is wrong with the form of a request.
var missingToken = badAPIRequest("missingField", "%q is missing from header.", tokenHeader)

// StaticToken accepts one token, for the given project, with all permissions. It panics when the token is empty: an API
// that anybody may change must be a decision that can be read in the caller's code.
func StaticToken(token string, projectID int) Authenticator {
	if token == "" {
		panic("stream: StaticToken with an empty token")
	}
	return &staticToken{sum: sha256.Sum256([]byte(token)), project: projectID}
}

type staticToken struct {
	sum     [sha256.Size]byte
	project int
}

func (t *staticToken) Verify(_ context.Context, token string) (Identity, error) {
	sum := sha256.Sum256([]byte(token)) // so that the comparison tells not even the length
	if subtle.ConstantTimeCompare(sum[:], t.sum[:]) != 1 {
		return Identity{}, invalidToken
	}
	return Identity{
		ProjectID: t.project, Master: true, Admin: true,
		By: catalog.By{Type: "user", TokenID: "static", TokenDesc: "static token"},
	}, nil
}

// tokenHeader carries the token of a request.
const tokenHeader = "X-StorageApi-Token"

// requestToken returns the token of a request without a scheme word before it; empty when there is none.
func requestToken(r *http.Request) string {
	token := strings.TrimSpace(r.Header.Get(tokenHeader))
	if token == "" {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		token = strings.TrimSpace(rest)
	}
	if _, rest, ok := strings.Cut(token, " "); ok {
		token = strings.TrimSpace(rest)
	}
	return token
}
