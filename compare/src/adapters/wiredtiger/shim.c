/*
 * WiredTiger's interface consists of structures of function pointers, and these differ from version to version. This file has plain
 * functions for the adapter, compiled against the header of the linked library. An `int` that a function returns is a code of WiredTiger.
 */
#include <stddef.h>
#include <wiredtiger.h>

const char *katydid_wt_version(void) {
    return wiredtiger_version(NULL, NULL, NULL);
}

const char *katydid_wt_text(int code) {
    return wiredtiger_strerror(code);
}

int katydid_wt_open(const char *home, const char *config, WT_CONNECTION **connection) {
    return wiredtiger_open(home, NULL, config, connection);
}

int katydid_wt_close(WT_CONNECTION *connection) {
    return connection->close(connection, NULL);
}

int katydid_wt_session(WT_CONNECTION *connection, WT_SESSION **session) {
    return connection->open_session(connection, NULL, "isolation=snapshot", session);
}

int katydid_wt_session_close(WT_SESSION *session) {
    return session->close(session, NULL);
}

int katydid_wt_create(WT_SESSION *session, const char *uri, const char *config) {
    return session->create(session, uri, config);
}

int katydid_wt_cursor(WT_SESSION *session, const char *uri, const char *config, WT_CURSOR **cursor) {
    return session->open_cursor(session, uri, NULL, config, cursor);
}

int katydid_wt_begin(WT_SESSION *session) {
    return session->begin_transaction(session, NULL);
}

int katydid_wt_commit(WT_SESSION *session) {
    return session->commit_transaction(session, NULL);
}

int katydid_wt_rollback(WT_SESSION *session) {
    return session->rollback_transaction(session, NULL);
}

static void key_of(WT_CURSOR *cursor, const void *key, size_t length) {
    WT_ITEM item = {0};
    item.data = key;
    item.size = length;
    cursor->set_key(cursor, &item);
}

static void value_of(WT_CURSOR *cursor, const void *value, size_t length) {
    WT_ITEM item = {0};
    item.data = value;
    item.size = length;
    cursor->set_value(cursor, &item);
}

static int found(WT_CURSOR *cursor, const void **value, size_t *length) {
    WT_ITEM item = {0};
    int code = cursor->get_value(cursor, &item);
    *value = item.data;
    *length = item.size;
    return code;
}

/* The value is valid until the cursor is used again. */
int katydid_wt_get(WT_CURSOR *cursor, const void *key, size_t length, const void **value, size_t *value_length) {
    key_of(cursor, key, length);
    int code = cursor->search(cursor);
    return code == 0 ? found(cursor, value, value_length) : code;
}

/* Reads the value of a key that no other transaction can write before this one ends. */
int katydid_wt_get_for_update(WT_CURSOR *cursor, const void *key, size_t length, const void **value, size_t *value_length) {
    key_of(cursor, key, length);
    int code = cursor->reserve(cursor);
    return code == 0 ? found(cursor, value, value_length) : code;
}

int katydid_wt_insert(WT_CURSOR *cursor, const void *key, size_t length, const void *value, size_t value_length) {
    key_of(cursor, key, length);
    value_of(cursor, value, value_length);
    return cursor->insert(cursor);
}

int katydid_wt_remove(WT_CURSOR *cursor, const void *key, size_t length) {
    key_of(cursor, key, length);
    return cursor->remove(cursor);
}

/* Moves to the first key that is at or after the given key. */
int katydid_wt_seek(WT_CURSOR *cursor, const void *key, size_t length) {
    int beside = 0;
    if (length == 0) {
        int code = cursor->reset(cursor);
        return code == 0 ? cursor->next(cursor) : code;
    }
    key_of(cursor, key, length);
    int code = cursor->search_near(cursor, &beside);
    return code == 0 && beside < 0 ? cursor->next(cursor) : code;
}

int katydid_wt_next(WT_CURSOR *cursor) {
    return cursor->next(cursor);
}

/* Key and value are valid until the cursor is used again. */
int katydid_wt_entry(WT_CURSOR *cursor, const void **key, size_t *length, const void **value, size_t *value_length) {
    WT_ITEM item = {0};
    int code = cursor->get_key(cursor, &item);
    *key = item.data;
    *length = item.size;
    return code == 0 ? found(cursor, value, value_length) : code;
}

int katydid_wt_reset(WT_CURSOR *cursor) {
    return cursor->reset(cursor);
}


const int katydid_wt_not_found = WT_NOTFOUND;
const int katydid_wt_duplicate_key = WT_DUPLICATE_KEY;
const int katydid_wt_conflict = WT_ROLLBACK;
