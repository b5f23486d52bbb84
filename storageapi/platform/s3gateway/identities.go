package s3gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"github.com/versity/versitygw/auth"

	"github.com/forebay/forebay/storageapi/platform"
)

// identities knows the temporary access keys that the server has handed out, which name their own scope. There
// are no other accounts.
type identities struct {
	auth.IAMServiceSingle // refuses the management of accounts
	objects               *platform.Objects
}

// GetUserAccount knows no account. Every access key has a session token, so the gateway calls DeriveSigningKey.
func (*identities) GetUserAccount(string) (auth.Account, error) {
	return auth.Account{}, auth.ErrNoSuchUser
}

// DeriveSigningKey implements [auth.SigningKeyProvider].
func (i *identities) DeriveSigningKey(access, sessionToken, date, region, service string) ([]byte, auth.Account, error) {
	secret, err := i.objects.SecretKey(access, sessionToken)
	if errors.Is(err, platform.ErrObjectDenied) {
		return nil, auth.Account{}, auth.ErrInvalidSessionToken
	}
	if err != nil {
		return nil, auth.Account{}, err
	}
	key := []byte("AWS4" + secret)
	for _, part := range []string{date, region, service, "aws4_request"} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	// The role lets the request through to the backend, which knows the rights of the access key.
	return key, auth.Account{Access: access, Role: auth.RoleAdmin, SessionToken: sessionToken, IsSession: true}, nil
}
