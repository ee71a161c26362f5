package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func code(err error) string {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}

func TestOnlyJournalsOfTrajectoriesThatAreOverAreRemoved(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	up := func(id string) {
		w.register(id, 2, plays("a.example", ""))
		w.do(w.client(2, false), "GET", "http://a.example/", "")
	}
	down := func(id string) {
		t.Helper()
		if _, err := w.admin.Unregister(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	up("t2")
	down("t2")
	up("t2") // the earlier one is t2~1
	list, err := w.admin.Journals(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if j := list.Journals; len(j) != 2 || !j[0].Live || j[0].Records != 1 || j[1].Name != "t2~1" || j[1].Live || time.Since(list.Now) > time.Minute {
		t.Fatalf("journals: %+v", list)
	}
	soon := time.Now().Add(time.Minute)
	remove := func(name string, before time.Time, want string) {
		t.Helper()
		if err := w.admin.RemoveJournal(ctx, name, before); code(err) != want || want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	remove("t2", soon, api.CodeBusy)
	remove("t2~1", soon, "")
	remove("t2~1", soon, api.CodeNotFound)
	remove(api.Unattributed, soon, api.CodeNotFound)
	down("t2")
	release, err := w.admin.Hold(ctx, "t2")
	if err != nil {
		t.Fatal(err)
	}
	remove("t2", soon, api.CodeBusy)
	release()
	remove("t2", list.Now.Add(-time.Hour), api.CodeBusy) // it was written to since
	eventually(t, "it is removed", func() bool {         // the hold ends with its connection
		err := w.admin.RemoveJournal(ctx, "t2", soon)
		return err == nil || code(err) != api.CodeBusy
	})
	if list, err := w.admin.Journals(ctx); err != nil || len(list.Journals) != 0 {
		t.Errorf("left are %+v, %v", list, err)
	}
	w.stop()
	w.start()
	if list, err := w.admin.Journals(ctx); err != nil || len(list.Journals) != 0 {
		t.Errorf("after a restart: %+v, %v", list, err)
	}
}
