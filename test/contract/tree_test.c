/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static troupe_system *the_system;

static void
setup(void)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.name = "tree-test";
    the_system = test_open(&options);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(tree, .init = setup, .fini = teardown);

static troupe_status
spawn_named(const char *name, troupe_ref *ref)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.name = name;
    return troupe_system_spawn(the_system, &test_plain, &options, ref);
}

static void
expect_path(troupe_ref ref, const char *expected)
{
    char text[512];

    cr_assert_eq(
        troupe_path(the_system, ref, text, sizeof text), strlen(expected));
    cr_assert_str_eq(text, expected);
}

/* --- names ---------------------------------------------------------------- */

Test(tree, names_that_are_good_are_taken)
{
    static const char *const good[] = {"a", "auth", "a b", "A-1_2.3", "...",
        ".a", "a.", "a$", "x:y", "\xc3\xa4\xc3\xb6", "%41", "user", "*"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        troupe_ref ref;
        troupe_ref found;
        char path[64];

        cr_assert_eq(spawn_named(good[i], &ref), TROUPE_OK, "%s", good[i]);
        (void)snprintf(path, sizeof path, "/user/%s", good[i]);
        cr_assert_eq(troupe_lookup(the_system, path, &found), TROUPE_OK);
        cr_assert(troupe_ref_equal(found, ref));
        (void)snprintf(
            path, sizeof path, "troupe://tree-test/user/%s", good[i]);
        expect_path(ref, path);
    }
}

Test(tree, names_that_are_bad_are_refused)
{
    static const char *const bad[] = {"", ".", "..", "/", "a/b", "/a", "a/",
        "\\", "a\\b", "$", "$a", "$anonymous-1", "\n", "a\nb", "\x01", "a\x1f",
        "\x7f", "tab\t", "\x1b[0m"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        troupe_ref ref = {7, 7};

        cr_assert_eq(spawn_named(bad[i], &ref), TROUPE_E_INVALID, "%zu", i);
        cr_assert_eq(ref.index, 7);
        cr_assert_str_eq(troupe_last_error().option, "name");
    }
    cr_assert_eq(test_counters(the_system).actors, 0);
}

Test(tree, a_name_is_free_again_once_the_child_has_stopped)
{
    troupe_ref first;
    troupe_ref second;

    cr_assert_eq(spawn_named("auth", &first), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, first), TROUPE_OK);
    cr_assert_eq(spawn_named("auth", &second), TROUPE_E_EXISTS);
    test_run(the_system);
    cr_assert_eq(spawn_named("auth", &second), TROUPE_OK);
    cr_assert_not(troupe_ref_equal(first, second));
    expect_path(second, "troupe://tree-test/user/auth");
    expect_path(first, "");
}

Test(tree, generated_names_differ_and_can_be_looked_up)
{
    troupe_ref refs[50];
    char paths[50][128];

    for (int i = 0; i < 50; i++) {
        troupe_ref found;

        cr_assert_eq(spawn_named(NULL, &refs[i]), TROUPE_OK);
        cr_assert_gt(
            troupe_path(the_system, refs[i], paths[i], sizeof paths[i]), 0);
        cr_assert_eq(strncmp(paths[i], "troupe://tree-test/user/$", 25), 0);
        for (int k = 0; k < i; k++) {
            cr_assert_str_neq(paths[i], paths[k]);
        }
        cr_assert_eq(troupe_lookup(the_system, paths[i], &found), TROUPE_OK);
        cr_assert(troupe_ref_equal(found, refs[i]));
    }
}

Test(tree, many_names_are_all_found)
{
    for (int i = 0; i < 2000; i++) {
        troupe_ref ref;
        char name[32];

        (void)snprintf(name, sizeof name, "actor-%d", i);
        cr_assert_eq(spawn_named(name, &ref), TROUPE_OK);
    }
    for (int i = 0; i < 2000; i++) {
        troupe_ref ref;
        char path[32];

        (void)snprintf(path, sizeof path, "/user/actor-%d", i);
        cr_assert_eq(troupe_lookup(the_system, path, &ref), TROUPE_OK);
    }
}

/* --- a family ------------------------------------------------------------- */

struct family {
    troupe_ref parent;
    troupe_ref child[4];
    troupe_ref found[8];
    size_t count;
};

static troupe_verdict
have_children(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct family *family = user;

    (void)msg;
    family->parent = troupe_self_ref(self);
    family->child[0] = test_spawn_doer_below(self, "a");
    family->child[1] = test_spawn_doer_below(self, "b");
    family->child[2] = test_spawn_doer_below(self, NULL);
    family->child[3] = test_spawn_doer_below(self, "c");
    return TROUPE_CONTINUE;
}

static troupe_verdict
count_children(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct family *family = user;

    (void)msg;
    memset(family->found, 0, sizeof family->found);
    family->count = troupe_children(self, family->found, 8);
    return TROUPE_CONTINUE;
}

static struct family family;

static void
make_family(void)
{
    test_do(the_system, test_spawn_doer(the_system, "parent"), have_children,
        &family);
}

Test(tree, paths_go_down_from_the_system)
{
    make_family();
    expect_path(family.parent, "troupe://tree-test/user/parent");
    expect_path(family.child[0], "troupe://tree-test/user/parent/a");
    expect_path(family.child[3], "troupe://tree-test/user/parent/c");
}

Test(tree, children_come_in_spawn_order)
{
    make_family();
    test_do(the_system, family.parent, count_children, &family);
    cr_assert_eq(family.count, 4);
    for (int i = 0; i < 4; i++) {
        cr_assert(troupe_ref_equal(family.found[i], family.child[i]));
    }
}

Test(tree, children_that_have_stopped_are_no_longer_listed)
{
    make_family();
    cr_assert_eq(troupe_post_stop(the_system, family.child[1]), TROUPE_OK);
    test_run(the_system);
    test_do(the_system, family.parent, count_children, &family);
    cr_assert_eq(family.count, 3);
    cr_assert(troupe_ref_equal(family.found[0], family.child[0]));
    cr_assert(troupe_ref_equal(family.found[1], family.child[2]));
    cr_assert(troupe_ref_equal(family.found[2], family.child[3]));
    cr_assert_eq(troupe_post_stop(the_system, family.child[0]), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, family.child[3]), TROUPE_OK);
    test_run(the_system);
    test_do(the_system, family.parent, count_children, &family);
    cr_assert_eq(family.count, 1);
    cr_assert(troupe_ref_equal(family.found[0], family.child[2]));
}

static troupe_verdict
ask_with_little_room(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ref two[3] = {{0, 0}, {0, 0}, {9, 9}};

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_children(self, NULL, 0), 4);
    cr_assert_eq(troupe_children(self, two, 2), 4);
    cr_assert(troupe_ref_equal(two[1], family.child[1]));
    cr_assert_eq(two[2].index, 9);
    return TROUPE_CONTINUE;
}

Test(tree, children_fills_what_there_is_room_for_and_says_how_many)
{
    make_family();
    test_do(the_system, family.parent, ask_with_little_room, NULL);
}

static troupe_verdict
find_by_name(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert(troupe_ref_equal(troupe_child(self, "a"), family.child[0]));
    cr_assert(troupe_ref_equal(troupe_child(self, "c"), family.child[3]));
    cr_assert(troupe_ref_is_none(troupe_child(self, "nobody")));
    cr_assert(troupe_ref_is_none(troupe_child(self, "")));
    cr_assert(troupe_ref_is_none(troupe_child(self, "parent")));
    cr_assert(troupe_ref_is_none(troupe_child(self, NULL)));
    return TROUPE_CONTINUE;
}

Test(tree, a_child_is_found_by_its_name)
{
    make_family();
    test_do(the_system, family.parent, find_by_name, NULL);
}

static troupe_verdict
expect_parent(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    cr_assert(troupe_ref_equal(troupe_parent(self), *(troupe_ref *)user));
    return TROUPE_CONTINUE;
}

Test(tree, a_child_knows_its_parent)
{
    make_family();
    test_do(the_system, family.child[0], expect_parent, &family.parent);
    test_do(the_system, family.child[2], expect_parent, &family.parent);
}

Test(tree, a_child_of_user_has_no_parent)
{
    troupe_ref none = TROUPE_NONE;

    make_family();
    test_do(the_system, family.parent, expect_parent, &none);
}

Test(tree, siblings_of_different_parents_may_have_one_name)
{
    struct family other;

    make_family();
    test_do(the_system, test_spawn_doer(the_system, "other"), have_children,
        &other);
    expect_path(other.child[0], "troupe://tree-test/user/other/a");
    expect_path(family.child[0], "troupe://tree-test/user/parent/a");
}

/* --- paths ---------------------------------------------------------------- */

Test(tree, path_is_like_snprintf)
{
    static const char whole[] = "troupe://tree-test/user/parent/a";
    char text[64];

    make_family();
    for (size_t room = 1; room < sizeof text; room++) {
        memset(text, '#', sizeof text);
        cr_assert_eq(troupe_path(the_system, family.child[0], text, room),
            strlen(whole));
        cr_assert_lt(strlen(text), room);
        cr_assert_eq(strncmp(text, whole, strlen(text)), 0);
        cr_assert_eq(text[room], '#');
        cr_assert(strlen(text) == room - 1 || room > strlen(whole));
    }
    text[0] = '#';
    cr_assert_eq(
        troupe_path(the_system, family.child[0], text, 0), strlen(whole));
    cr_assert_eq(text[0], '#');
    cr_assert_eq(
        troupe_path(the_system, family.child[0], NULL, 0), strlen(whole));
}

Test(tree, path_of_one_that_has_gone_is_empty)
{
    char text[64] = "something";

    make_family();
    cr_assert_eq(troupe_post_stop(the_system, family.parent), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(
        troupe_path(the_system, family.child[0], text, sizeof text), 0);
    cr_assert_str_eq(text, "");
    (void)strcpy(text, "something");
    cr_assert_eq(troupe_path(the_system, TROUPE_NONE, text, sizeof text), 0);
    cr_assert_str_eq(text, "");
}

Test(tree, lookup_takes_paths_with_and_without_the_system)
{
    static const char *const paths[] = {
        "/user/parent/a", "troupe://tree-test/user/parent/a"};

    make_family();
    for (size_t i = 0; i < 2; i++) {
        troupe_ref found = TROUPE_NONE;

        cr_assert_eq(troupe_lookup(the_system, paths[i], &found), TROUPE_OK);
        cr_assert(troupe_ref_equal(found, family.child[0]));
    }
}

Test(tree, lookup_of_what_is_not_there_says_so)
{
    static const char *const paths[] = {"", "/", "user/parent", "parent",
        "/user/nobody", "/user/parent/a/b", "/user/parent/", "/user//parent",
        "/parent", "/nowhere", "troupe://other/user/parent",
        "troupe://tree-test", "troupe://tree-testuser/parent",
        "troupe://tree-test2/user/parent", "/user/Parent", "/user/parent ",
        "/user/../user/parent", "/user/$zz", "/user/$1-1", "/user/$-",
        "/user/$ffffffffff-1", "akka://tree-test/user/parent"};

    make_family();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        troupe_ref found = {5, 5};
        troupe_status status = troupe_lookup(the_system, paths[i], &found);

        cr_assert_eq(status, TROUPE_E_MISSING, "'%s'", paths[i]);
        cr_assert_eq(found.index, 5);
    }
}

Test(tree, a_generated_name_is_spelled_in_one_way)
{
    /* The first is cut to 32 bits. */
    static const char *const before[] = {
        "$1", "$ ", "$+", "$0x", "$0", "$", "$", "$"};
    static const char *const between[] = {
        "-", "-", "-", "-", "-", "-0", "- ", "-"};
    static const char *const after[] = {"", "", "", "", "", "", "", "x"};
    troupe_ref ref, found, named;
    char path[64];

    cr_assert_eq(
        troupe_system_spawn(the_system, &test_plain, NULL, &ref), TROUPE_OK);
    cr_assert_eq(spawn_named("named", &named), TROUPE_OK);
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(path, sizeof path, "/user/%s%0*x%s%x%s", before[i],
            i == 0 ? 8 : 1, ref.index, between[i], ref.generation, after[i]);
        cr_assert_eq(troupe_lookup(the_system, path, &found), TROUPE_E_MISSING,
            "%s", path);
    }
    (void)snprintf(
        path, sizeof path, "/user/$%x-%x", ref.index, ref.generation);
    cr_assert_eq(troupe_lookup(the_system, path, &found), TROUPE_OK);
    (void)snprintf(
        path, sizeof path, "/user/$%x-%x", named.index, named.generation);
    cr_assert_eq(troupe_lookup(the_system, path, &found), TROUPE_E_MISSING,
        "it has a name");
}

Test(tree, lookup_without_a_path_is_refused)
{
    troupe_ref found;

    cr_assert_eq(troupe_lookup(the_system, NULL, &found), TROUPE_E_INVALID);
    cr_assert_eq(troupe_lookup(the_system, "/user/x", NULL), TROUPE_E_INVALID);
    cr_assert_eq(troupe_lookup(NULL, "/user/x", &found), TROUPE_E_INVALID);
}

Test(tree, lookup_of_one_that_has_stopped_says_so)
{
    troupe_ref found;

    make_family();
    cr_assert_eq(troupe_post_stop(the_system, family.parent), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(
        troupe_lookup(the_system, "/user/parent", &found), TROUPE_E_MISSING);
    cr_assert_eq(
        troupe_lookup(the_system, "/user/parent/a", &found), TROUPE_E_MISSING);
}

static troupe_verdict
go_deeper(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    *(troupe_ref *)user = test_spawn_doer_below(self, "d");
    return TROUPE_CONTINUE;
}

Test(tree, it_may_be_deep)
{
    troupe_ref at = test_spawn_doer(the_system, "d");
    char path[2048] = "/user/d";
    troupe_ref found;

    for (int i = 0; i < 500; i++) {
        troupe_ref below = TROUPE_NONE;

        test_do(the_system, at, go_deeper, &below);
        at = below;
        (void)strcat(path, "/d");
    }
    cr_assert_eq(troupe_lookup(the_system, path, &found), TROUPE_OK);
    cr_assert(troupe_ref_equal(found, at));
    cr_assert_eq(troupe_path(the_system, at, NULL, 0),
        strlen("troupe://tree-test") + strlen(path));
}
