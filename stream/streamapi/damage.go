package streamapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
)

// damagesBody are the records of damage.
type damagesBody struct {
	Damage []damageBody `json:"damage" doc:"Records of damage: first the records of the whole store, then in the order of the slices."`
}

// damageBody is a [buffer.Damage] without the bytes that could be read.
type damageBody struct {
	DamageID  string `json:"damageId" doc:"Id of the record."`
	SourceID  string `json:"sourceId,omitempty" doc:"Source of the rows; left out for the store as a whole."`
	SinkID    string `json:"sinkId,omitempty" doc:"Sink of the rows; left out for the store as a whole."`
	FileID    string `json:"fileId,omitempty" doc:"File of the rows."`
	SliceID   string `json:"sliceId,omitempty" doc:"Slice of the rows."`
	Rows      int64  `json:"rows" doc:"Number of lost rows."`
	Uncounted bool   `json:"uncounted,omitempty" doc:"More rows may be lost, because their counter is lost too; left out for false."`
	FoundAt   string `json:"foundAt" doc:"Time in UTC with milliseconds when the damage was found."`
	Reason    string `json:"reason" doc:"What was found."`
	Store     string `json:"store,omitempty" doc:"Folder of the local level with the store that was set aside as a whole."`
}

func (a *api) listDamage(c *request) (any, error) {
	list, err := a.on.Engine().Buffer().Damaged(c.ctx)
	if err != nil {
		return nil, err
	}
	return damagesBody{Damage: convert(list, newDamage)}, nil
}

func newDamage(d buffer.Damage) damageBody {
	source, sink, _ := strings.Cut(d.SinkID, "/")
	return damageBody{
		DamageID: d.ID, SourceID: source, SinkID: sink, FileID: d.FileID, SliceID: d.SliceID, Rows: d.Rows, Uncounted: d.Uncounted,
		FoundAt: catalog.Time(d.At), Reason: d.Reason, Store: d.Store,
	}
}

func (a *api) forgetDamage(c *request) (any, error) {
	id := c.r.PathValue("damageId")
	err := a.on.Engine().Buffer().ForgetDamage(c.ctx, id)
	if errors.Is(err, buffer.ErrUnknownDamage) {
		return nil, &catalog.Error{Code: catalog.DamageNotFound, Message: fmt.Sprintf("There is no record of damage %q: an operator removed it, it has expired, or it never was. List the records of damage to see their ids.", id)}
	}
	return nil, err
}
