//! Tests of the page format.
