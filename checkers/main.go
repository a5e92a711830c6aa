// Checks that histories are linearizable, with porcupine. See README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// checked counts the histories, keys and operations checked so far.
type checked struct {
	histories, keys, operations int
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "time in which a history must be checked")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: go run . [-timeout TIME] FILE_OR_FOLDER...\n\n"+
			"Checks that each history is linearizable, and exits with code 1 if one is not.\n"+
			"A folder stands for its files *.jsonl. The format is described in README.md.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	sum, err := run(flag.Args(), *timeout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "checkers: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("evidence: %d histories of %d keys with %d operations are linearizable\n",
		sum.histories, sum.keys, sum.operations)
}

// run checks all files, and fails at the end if a history is not linearizable.
func run(paths []string, timeout time.Duration) (checked, error) {
	var sum checked
	files, err := expand(paths)
	if err != nil {
		return sum, err
	}
	var refused []error
	for _, file := range files {
		if err := check(file, timeout, &sum); err != nil {
			refused = append(refused, err)
		}
	}
	return sum, errors.Join(refused...)
}

// expand replaces folders by their histories.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		about, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !about.IsDir() {
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no file *.jsonl", path)
		}
		sort.Strings(found)
		files = append(files, found...)
	}
	return files, nil
}

// check checks one history, and draws it if it is not linearizable.
func check(file string, timeout time.Duration, sum *checked) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	history, err := readHistory(from)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	result, info := porcupine.CheckOperationsVerbose(registers, history, timeout)
	switch result {
	case porcupine.Ok:
		sum.histories++
		sum.keys += len(registers.Partition(history))
		sum.operations += len(history)
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%s: not checked within %v", file, timeout)
	default:
		picture := file + ".html"
		if err := porcupine.VisualizePath(registers, info, picture); err != nil {
			return fmt.Errorf("%s: not linearizable; cannot draw it: %w", file, err)
		}
		return fmt.Errorf("%s: not linearizable; %s shows it", file, picture)
	}
}
