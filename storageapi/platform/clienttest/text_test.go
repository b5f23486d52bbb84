package clienttest

import (
	"testing"

	"github.com/forebay/forebay/internal/refusedtest"
	"github.com/forebay/forebay/storageapi/drivers"
)

func TestTextIsUTF8(t *testing.T) {
	refusedtest.Text(t, newTarget(t, newWorld(t), drivers.TargetOptions{}), "in.c-shop.orders")
}
