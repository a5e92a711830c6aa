package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// outcome checks one history, given as the text of its file.
func outcome(t *testing.T, text string) (checked, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return run([]string{file}, time.Minute)
}

const overlapping = `{"client":0,"op":"write","key":"a","value":"1","call":1,"return":2,"outcome":"ok"}
{"client":0,"op":"write","key":"a","value":"2","call":3,"return":6,"outcome":"ok"}
{"client":1,"op":"read","key":"a","value":"1","call":4,"return":5,"outcome":"ok"}
{"client":1,"op":"read","key":"b","value":null,"call":7,"return":8,"outcome":"ok"}
`

func TestAReadDuringAWriteMayReturnEitherValue(t *testing.T) {
	sum, err := outcome(t, overlapping)
	if err != nil || sum != (checked{histories: 1, keys: 2, operations: 4}) {
		t.Fatal(sum, err)
	}
	_, err = outcome(t, strings.Replace(overlapping, `"read","key":"a","value":"1"`, `"read","key":"a","value":"2"`, 1))
	if err != nil {
		t.Fatal(err)
	}
}

func TestAStaleReadIsRejectedAndDrawn(t *testing.T) {
	stale := overlapping + `{"client":2,"op":"read","key":"a","value":"1","call":7,"return":8,"outcome":"ok"}` + "\n"
	_, err := outcome(t, stale)
	if err == nil || !strings.Contains(err.Error(), "history.jsonl: not linearizable; ") {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(err.Error(), "; ")
	if _, err := os.Stat(strings.TrimSuffix(picture, " shows it")); err != nil {
		t.Fatal(err)
	}
	lost := strings.Replace(stale, `"value":"1","call":7`, `"value":null,"call":7`, 1)
	if _, err := outcome(t, lost); err == nil {
		t.Fatal("a lost write is accepted")
	}
}

func TestAWriteWithAnUnknownOutcomeMayTakeEffectLateOrNever(t *testing.T) {
	write := `{"client":0,"op":"write","key":"a","value":"1","call":1,"return":null,"outcome":"unknown"}` + "\n"
	nothing := `{"client":1,"op":"read","key":"a","value":null,"call":2,"return":3,"outcome":"ok"}` + "\n"
	there := `{"client":1,"op":"read","key":"a","value":"1","call":4,"return":5,"outcome":"ok"}` + "\n"
	gone := `{"client":1,"op":"read","key":"a","value":null,"call":6,"return":7,"outcome":"ok"}` + "\n"
	for _, history := range []string{write + nothing, write + nothing + there} {
		if _, err := outcome(t, history); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := outcome(t, write+nothing+there+gone); err == nil {
		t.Fatal("a write that took effect is undone")
	}
}

func TestAWriteThatFailedIsNeverRead(t *testing.T) {
	write := `{"client":0,"op":"write","key":"a","value":"1","call":1,"return":2,"outcome":"failed"}` + "\n"
	there := `{"client":1,"op":"read","key":"a","value":"1","call":4,"return":5,"outcome":"ok"}` + "\n"
	if _, err := outcome(t, write+there); err == nil {
		t.Fatal("a write that failed is read")
	}
	if _, err := outcome(t, write); err != nil {
		t.Fatal(err)
	}
}

func TestWrongLinesAndMissingFilesAreErrors(t *testing.T) {
	for text, words := range map[string]string{
		`{"op":"write"`: "line 1: unexpected EOF",
		`{"op":"write","key":"a","value":"1","call":1,"return":2,"outcome":"fine"}`: `no outcome "fine"`,
		`{"op":"swap","key":"a","value":"1","call":1,"return":2,"outcome":"ok"}`:    `no operation "swap"`,
		`{"op":"write","key":"a","call":1,"return":2,"outcome":"ok"}`:               "must have a value",
		`{"op":"read","key":"a","call":3,"return":2,"outcome":"ok"}`:                "must return after",
		`{"op":"read","key":"a","call":1,"return":2,"outcome":"ok","term":3}`:       "unknown field",
	} {
		if _, err := outcome(t, text+"\n"); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
	folder := t.TempDir()
	if _, err := run([]string{folder}, time.Minute); err == nil || !strings.Contains(err.Error(), "has no file") {
		t.Error(err)
	}
	if _, err := run([]string{filepath.Join(folder, "none")}, time.Minute); err == nil {
		t.Error("a missing file is accepted")
	}
}
