#!/usr/bin/env escript
%% Two processes that make binaries of 64 KB to 4 MB and drop them, of which each keeps sixteen; says how many a second.
%% binaries.escript SECONDS
-mode(compile).

main([Seconds]) ->
    Until = erlang:monotonic_time(millisecond) + 1000 * list_to_integer(Seconds),
    Self = self(),
    Chunk = binary:copy(<<1>>, 65536),
    [spawn_link(fun() -> Self ! {made, make(Until, Chunk, N, queue:new(), 0)} end) || N <- [1, 2]],
    All = lists:sum([receive {made, Made} -> Made end || _ <- [1, 2]]),
    io:format("binaries ~p~n", [All div list_to_integer(Seconds)]).

make(Until, Chunk, Seed, Kept, Made) ->
    case erlang:monotonic_time(millisecond) < Until of
        false -> Made;
        true ->
            Next = (Seed * 16807) rem 2147483647,
            Binary = binary:copy(Chunk, 1 + Next rem 64),
            Longer = queue:in(Binary, Kept),
            Fewer = case queue:len(Longer) > 16 of
                        true -> queue:drop(Longer);
                        false -> Longer
                    end,
            %% what is dropped is freed by the next collection, as in a program that makes terms besides
            Made rem 8 =:= 0 andalso erlang:garbage_collect(),
            make(Until, Chunk, Next, Fewer, Made + 1)
    end.
